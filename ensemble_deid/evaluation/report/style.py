"""The look of the report: light and dark, wide and narrow, on screen and on paper."""

STYLE = """
:root{color-scheme:light dark;--bg:#fbfbfa;--card:#fff;--ink:#1b1f24;--soft:#57606a;--line:#d5d9de;--accent:#0b5cad;
--missed:#b3261e;--spurious:#8a5a00;--label:#6b3fa0;--boundary:#0b5cad;--good:#1a7f37;--warn-bg:#fdecea;
--warn-line:#b3261e;--gold:#1a7f37;--sys-bg:#d6e6fb;--focus-bg:#ffe08a;--bar:#9cc3ef;--heat:11,92,173}
@media (prefers-color-scheme:dark){:root{--bg:#14171b;--card:#1c2026;--ink:#e8eaed;--soft:#a6aeb8;--line:#39414b;
--accent:#7ab8ff;--missed:#ff8a80;--spurious:#ffc069;--label:#cfa8ff;--boundary:#7ab8ff;--good:#6fdc8c;
--warn-bg:#3a1614;--warn-line:#ff8a80;--gold:#6fdc8c;--sys-bg:#24405f;--focus-bg:#6b5300;--bar:#3c6ea5;
--heat:122,184,255}}
*{box-sizing:border-box}
html{scroll-behavior:smooth;scroll-padding-top:3.5rem}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
"Noto Sans","Liberation Sans",sans-serif;overflow-wrap:anywhere}
main,header.top,footer{max-width:76rem;margin:0 auto;padding:0 1rem}
h1{font-size:1.6rem;line-height:1.25;margin:1rem 0 .25rem}
h2{font-size:1.25rem;margin:2.25rem 0 .5rem;padding-top:.5rem;border-top:1px solid var(--line)}
section:first-child h2{margin-top:1rem;border-top:0}
h3{font-size:1.02rem;margin:1.25rem 0 .4rem}
p{margin:.4rem 0;max-width:60rem}
a{color:var(--accent)}
.soft{color:var(--soft);font-size:.875rem}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px;border-radius:3px}
.skip{position:absolute;left:-99rem}.skip:focus{left:.5rem;top:.5rem;background:var(--card);padding:.5rem;z-index:9}
.warning{background:var(--warn-bg);border:2px solid var(--warn-line);border-radius:.5rem;padding:.7rem 1rem;
margin:1rem auto 0;max-width:74rem;width:calc(100% - 2rem)}
.warning strong{color:var(--warn-line)}
nav{position:sticky;top:0;background:var(--bg);border-bottom:1px solid var(--line);z-index:5}
nav ul{display:flex;gap:.25rem;list-style:none;margin:0 auto;padding:.3rem 1rem;max-width:76rem;overflow-x:auto}
nav a{display:block;padding:.35rem .6rem;white-space:nowrap;text-decoration:none;border-radius:.4rem}
nav a:hover{background:var(--card);text-decoration:underline}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(12.5rem,1fr));gap:.75rem;margin:.75rem 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:.7rem .9rem}
.tile b{display:block;font-size:1.7rem;line-height:1.2;font-variant-numeric:tabular-nums}
.tile .soft{display:block}
.scroll{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:.6rem;margin:.5rem 0}
table{overflow-wrap:break-word;border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}
caption{position:sticky;left:0;max-width:calc(100vw - 3.5rem);text-align:left;
padding:.6rem .75rem;color:var(--soft);font-size:.875rem}
th,td{padding:.35rem .75rem;text-align:right;border-top:1px solid var(--line);white-space:nowrap;vertical-align:top}
thead th{border-top:0;color:var(--soft);font-weight:600;vertical-align:bottom}
th:first-child{text-align:left}.text{text-align:left!important}
tbody th{font-weight:600;position:sticky;left:0;background:var(--card)}
td small{display:block;color:var(--soft)}
svg{max-width:100%;height:auto;display:block}figure svg{width:100%}
svg text{fill:var(--soft);font-size:12px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:.75rem}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:.7rem .9rem}
figcaption{font-weight:600;margin-bottom:.3rem}
.key{display:flex;flex-wrap:wrap;gap:.2rem 1rem;font-size:.85rem;color:var(--soft)}
.key i{display:inline-block;width:1.4em;height:0;border-top:3px solid;vertical-align:middle;margin-right:.35em}
.key .dash{border-top-style:dashed}.key .dot{border-top-style:dotted}
.c1{stroke:var(--accent)}.c2{stroke:var(--good)}.c3{stroke:var(--label)}
.key .c1{border-color:var(--accent)}.key .c2{border-color:var(--good)}.key .c3{border-color:var(--label)}
.reader{margin:.75rem 0}
.readout{display:flex;flex-wrap:wrap;gap:.1rem 1.2rem;font-variant-numeric:tabular-nums}
input[type=range]{width:100%;accent-color:var(--accent)}
.matrix th,.matrix td{padding:.2rem .4rem;text-align:center;font-size:.8rem}
.matrix{width:auto}.matrix td{min-width:2.3rem}
.matrix thead span{display:inline-block;writing-mode:vertical-rl;transform:rotate(180deg)}
.matrix tbody th{text-align:right}
.matrix .right{color:var(--soft)}.matrix .wrong{font-weight:700}
.filters{display:grid;align-items:end;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.6rem;background:var(--card);
border:1px solid var(--line);border-radius:.6rem;padding:.75rem;margin:.5rem 0}
.filters label{font-size:.85rem;color:var(--soft)}
.filters select,.filters input{display:block;width:100%;font:inherit;color:inherit;background:var(--bg);
border:1px solid var(--soft);border-radius:.4rem;padding:.45rem .5rem;min-height:2.6rem}
button{font:inherit;color:var(--accent);background:none;border:1px solid var(--accent);border-radius:.4rem;
padding:.3rem .7rem;min-height:2.4rem;cursor:pointer}
.error button{margin-top:.5rem}td.drawn{padding-top:.5rem}td.drawn svg{min-width:124px}
button:hover{background:var(--sys-bg)}
details.kind{margin:.75rem 0}
details.kind>summary{cursor:pointer;font-weight:600;padding:.5rem .75rem;background:var(--card);
border:1px solid var(--line);border-left:.4rem solid var(--kind);border-radius:.4rem}
.missed{--kind:var(--missed)}.spurious{--kind:var(--spurious)}.wrong-label{--kind:var(--label)}
.wrong-boundary,.wrong-label-and-boundary{--kind:var(--boundary)}
.error{background:var(--card);border:1px solid var(--line);border-left:.4rem solid var(--kind);border-radius:.4rem;
padding:.55rem .8rem;margin:.5rem 0;content-visibility:auto;contain-intrinsic-size:auto 7rem}
.error[hidden],details[hidden]{display:none}
.facts{display:flex;flex-wrap:wrap;gap:.15rem .9rem;align-items:baseline;font-size:.85rem;color:var(--soft);margin:0}
.facts b{color:var(--kind);font-size:.95rem}
.context,.note{white-space:pre-wrap;font-family:ui-monospace,"DejaVu Sans Mono","Liberation Mono",monospace;
font-size:.85rem;margin:.4rem 0;line-height:1.65}
mark{background:none;color:inherit;border-radius:2px}
.legend mark{color:var(--ink)}
mark.s{background:var(--sys-bg)}mark.g{text-decoration:underline 2px var(--gold);text-underline-offset:3px}
mark.f.s{background:var(--focus-bg)}
mark.f.g{text-decoration:underline 3px var(--kind,var(--missed));font-weight:700}
mark.f.s:not(.g){outline:2px dashed var(--kind,var(--spurious));outline-offset:1px}
.votes{display:flex;flex-wrap:wrap;gap:.3rem .5rem;list-style:none;margin:.35rem 0 0;padding:0;font-size:.8rem}
.votes li{border:1px solid var(--line);border-radius:1rem;padding:.05rem .6rem}
.votes .none{color:var(--soft)}
dialog{width:min(60rem,96vw);max-height:92vh;color:var(--ink);background:var(--card);border:1px solid var(--line);
border-radius:.6rem;padding:0}
dialog::backdrop{background:rgba(0,0,0,.5)}
dialog .bar{position:sticky;top:0;background:var(--card);display:flex;gap:1rem;justify-content:space-between;
align-items:center;padding:.6rem 1rem;border-bottom:1px solid var(--line)}
dialog .note{padding:0 1rem 1rem}
kbd{border:1px solid var(--line);border-radius:.25rem;padding:0 .3rem;font-size:.85em}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1rem;font-size:.9rem}
dt{font-weight:600}dd{margin:0}
footer{padding:2rem 1rem;color:var(--soft);font-size:.85rem}
@media (max-width:40rem){body{font-size:15px}.tile b{font-size:1.4rem}table{font-size:.82rem}th,td{padding:.3rem .4rem}
dl{grid-template-columns:1fr}dd{margin:0 0 .5rem}tbody th{max-width:9.5rem;white-space:normal}
td.drawn svg{min-width:90px;width:90px}}
@media print{:root{color-scheme:light;--bg:#fff;--card:#fff;--ink:#000;--soft:#444;--line:#bbb;--accent:#0b5cad;
--missed:#b3261e;--spurious:#8a5a00;--label:#6b3fa0;--boundary:#0b5cad;--gold:#1a7f37;--sys-bg:#d6e6fb;
--focus-bg:#ffe08a;--bar:#9cc3ef;--warn-bg:#fff;--warn-line:#b3261e;--heat:11,92,173}
nav,.filters,button,.skip,input,.screen{display:none!important}body{font-size:10.5pt}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
.scroll{overflow:visible;border:0}caption{position:static;max-width:none;break-after:avoid}h2+p{break-after:avoid}
.charts,thead{break-inside:avoid}table{font-size:8pt}th,td{padding:.1rem .35rem}tbody th{position:static}
.matrix th,.matrix td{font-size:6.5pt;padding:.05rem .12rem}.matrix td{min-width:0}
.error,figure,.tile,tr{break-inside:avoid}.error{content-visibility:visible}h2,h3{break-after:avoid}}
"""
