"""Generic words in names of places, which are kept when the name is replaced."""

from collections.abc import Mapping

from ensemble_deid.note.folding import fold

_ENGLISH = """
a an and at by for in of on the to with
hospital hospitals hosp center centre ctr clinic clinics medical med health healthcare care system systems network
regional general community county memorial university college school institute foundation group associates partners
practice physicians family pediatric pediatrics children's childrens child women's womens veterans tribal rural urgent
emergency surgical surgery outpatient inpatient primary behavioral mental psychiatric psychiatry rehab rehabilitation
nursing skilled hospice home house manor village living assisted senior dialysis kidney renal heart cardiac cardiology
vascular lung sleep eye ear oncology cancer orthopedic orthopedics orthotics imaging radiology pathology laboratory lab
labs pharmacy drug dental physical occupational therapy speech wound pain transplant endocrine gi neurology maternity
birth birthing neonatal icu nicu micu er ed ward unit floor wing tower building bldg pavilion annex campus dept
department services service division office program project
company co corp corporation inc llc ltd industries manufacturing supply supplies transport trucking bank credit union
cu insurance mutual local lodge post club church parish chapel temple mosque synagogue cathedral ministry ministries
fellowship academy elementary middle high isd district court police fire station ambulance ems shelter center's legal
society association league team council bureau
street st avenue ave road rd lane ln drive dr court ct place pl plaza boulevard blvd way terrace terr trail tr circle
cir highway hwy route rte parkway pkwy square sq alley loop row crossing suite ste apartment apt unit room rm floor
box po p.o pob
lake lakes river creek bay beach island islands mountain mountains mount mt hill hills valley canyon park forest
reservation state national county bridge port harbor harbour airport point cape ridge trail road highway interstate
i us sr hwy n s e w ne nw se sw north south east west northern southern eastern western upper lower old new great
saint st. san santa trauma hand bone joint technical polytechnic laboratories cleaners rotary farmers farm farms
foods market restaurant cafe bakery motors auto towing storage homes builders construction roofing plumbing electric
orchestra choir band theater theatre library museum gym pool stadium arena cemetery funeral center children adult day
pass gulch hollow reservoir mesa basin bluff falls springs woods dam canal marsh pond glacier peninsula zoo garden
gardens camp campground cabin plaza mall nation
"""
_SPANISH = """
hospital hospitales clínica clínico centro salud universitario general provincial comarcal regional fundación instituto
servicio unidad departamento sección área consulta facultad universidad colegio residencia policlínica complejo
asistencial maternidad infantil de del la las el los y e en nuestra señora virgen san santa calle avenida avda av plaza
pza paseo carretera ctra camino ronda travesía urbanización c nº n piso planta puerta bajo apartado correos s
urología cirugía medicina interna pediatría cardiología neurología oncología radiología anatomía patológica
"""
GENERIC_WORDS: frozenset[str] = frozenset(fold(word) for word in (_ENGLISH + _SPANISH).split())

STATES: Mapping[str, str] = {
    "AL": "Alabama",
    "AK": "Alaska",
    "AZ": "Arizona",
    "AR": "Arkansas",
    "CA": "California",
    "CO": "Colorado",
    "CT": "Connecticut",
    "DE": "Delaware",
    "FL": "Florida",
    "GA": "Georgia",
    "HI": "Hawaii",
    "ID": "Idaho",
    "IL": "Illinois",
    "IN": "Indiana",
    "IA": "Iowa",
    "KS": "Kansas",
    "KY": "Kentucky",
    "LA": "Louisiana",
    "ME": "Maine",
    "MD": "Maryland",
    "MA": "Massachusetts",
    "MI": "Michigan",
    "MN": "Minnesota",
    "MS": "Mississippi",
    "MO": "Missouri",
    "MT": "Montana",
    "NE": "Nebraska",
    "NV": "Nevada",
    "NH": "New Hampshire",
    "NJ": "New Jersey",
    "NM": "New Mexico",
    "NY": "New York",
    "NC": "North Carolina",
    "ND": "North Dakota",
    "OH": "Ohio",
    "OK": "Oklahoma",
    "OR": "Oregon",
    "PA": "Pennsylvania",
    "RI": "Rhode Island",
    "SC": "South Carolina",
    "SD": "South Dakota",
    "TN": "Tennessee",
    "TX": "Texas",
    "UT": "Utah",
    "VT": "Vermont",
    "VA": "Virginia",
    "WA": "Washington",
    "WV": "West Virginia",
    "WI": "Wisconsin",
    "WY": "Wyoming",
}
PLAIN_WORDS: tuple[str, ...] = tuple(
    """
    Alder Amber Anchor Arbor Ashford Aspen Autumn Badger Bayberry Beacon Birchwood Blackwater Bluebird Boulder Bramble
    Bridgeway Bright Brookfield Cardinal Cascade Cedarwood Centennial Chestnut Clearwater Clover Cobalt Compass Copper
    Coral Cornerstone Cottonwood Cranberry Crescent Crossroads Crown Crystal Cypress Dogwood Dovetail Eagle Eastgate
    Elmwood Evergreen Fairview Falcon Fernwood Foxglove Frontier Garnet Gateway Glenwood Golden Granite Grove Harvest
    Hawthorn Hazel Heather Heritage Heron Hickory Highland Horizon Indigo Iron Ivory Jasper Juniper Keystone Kingfisher
    Lakeside Lantern Laurelwood Legacy Liberty Lighthouse Lilac Linden Magnolia Mapleton Meadow Meridian Millstone
    Mockingbird Moss Northfield Oakdale Obsidian Orchard Osprey Overlook Palisade Pearl Pebble Pelican Pheasant
    Pioneer Poplar Prairie Quail Quarry Raven Redwood Riverbend Robin Rosewood Sable Sage Sandstone Sapphire Sequoia
    Shoreline Sierra Silver Skyline Sparrow Spruce Starling Sterling Stonegate Summit Sunrise Sycamore Tanager Thistle
    Thornton Timber Trillium Twilight Valley Vantage Violet Vista Walnut Waterford Wayside Westfield Wheatland
    Wildflower Willow Windmill Woodbine Wren Yarrow Zephyr
    """.split()
)
"""Plain words of which hospitals, streets and companies are named."""
COUNTRY_SHORT: tuple[str, ...] = ("UK", "USA", "UAE", "DRC", "U.K.", "U.S.", "U.A.E.")
