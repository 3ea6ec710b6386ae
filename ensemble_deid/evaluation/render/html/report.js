// What the report does on a screen: filter the errors, show a whole note, read the curves at a threshold, and say
// where a table is wider than the screen. Without it the page still shows everything but whole notes.
(function () {
'use strict';
const byId = id => document.getElementById(id);

// Filters of the errors
const cards = [...document.querySelectorAll('.error')];
const fields = {kind: byId('f-kind'), label: byId('f-label'), note: byId('f-note'), words: byId('f-words')};
const anySet = () => Object.values(fields).some(field => field && field.value);

function wanted(card) {
  const data = card.dataset;
  if (fields.kind.value && data.kind !== fields.kind.value) return false;
  if (fields.label.value && data.gold !== fields.label.value && data.system !== fields.label.value) return false;
  if (fields.note && fields.note.value && data.note !== fields.note.value) return false;
  const words = fields.words.value.trim().toLowerCase();
  return !words || card.textContent.toLowerCase().includes(words);
}

function filter() {
  let shown = 0;
  for (const card of cards) {
    card.hidden = !wanted(card);
    if (!card.hidden) shown++;
  }
  for (const group of document.querySelectorAll('details.kind')) {
    const left = group.querySelectorAll('.error:not([hidden])').length;
    group.hidden = left === 0;
    group.querySelector('.left').textContent = left === Number(group.dataset.all) ? '' : ' (' + left + ' match)';
    if (anySet() && left) group.open = true;
  }
  byId('shown').textContent = shown + ' of ' + cards.length + ' listed errors shown';
}

if (cards.length) {
  for (const field of Object.values(fields)) if (field) field.addEventListener('input', filter);
  byId('clear').addEventListener('click', () => {
    for (const field of Object.values(fields)) if (field) field.value = '';
    filter();
    fields.kind.focus();
  });
  filter();
}

// j and k: the next and the previous error
let at = -1;
document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || document.querySelector('dialog[open]')) return;
  const step = event.key === 'j' ? 1 : event.key === 'k' ? -1 : 0;
  if (!step) return;
  const seen = cards.filter(card => card.offsetParent !== null);
  if (!seen.length) return;
  const now = seen.indexOf(document.activeElement.closest('.error'));
  at = now >= 0 ? now + step : Math.max(0, at);
  at = Math.min(seen.length - 1, Math.max(0, at));
  seen[at].focus();
  seen[at].scrollIntoView({block: 'nearest'});
});

// A whole note
const stored = byId('notes');
const dialog = byId('note-dialog');
if (stored && dialog) {
  const notes = JSON.parse(stored.textContent);
  const pieces = (note, focus) => {
    // Offsets count characters, not the halves of characters that strings are made of here.
    const text = [...note.text];
    const edges = [...note.gold, ...note.system].flatMap(span => [span[0], span[1]]);
    const cuts = [...new Set([0, text.length, ...edges])].sort((a, b) => a - b);
    const over = (spans, a, b) => spans.filter(span => span[0] < b && a < span[1]);
    return cuts.slice(0, -1).map((a, i) => {
      const b = cuts[i + 1], gold = over(note.gold, a, b), system = over(note.system, a, b);
      const words = text.slice(a, b).join('');
      if (!gold.length && !system.length) return document.createTextNode(words);
      const mark = document.createElement('mark');
      const focused = focus && focus[0] < b && a < focus[1];
      mark.className = (gold.length ? 'g ' : '') + (system.length ? 's ' : '') + (focused ? 'f' : '');
      mark.title = [...gold.map(span => 'gold ' + span[2]), ...system.map(span => 'system ' + span[2])].join('; ');
      mark.textContent = words;
      return mark;
    });
  };
  document.addEventListener('click', event => {
    const button = event.target.closest('button[data-open]');
    if (!button) return;
    const note = notes[button.dataset.open];
    const body = byId('note-text');
    byId('note-title').textContent = 'Note ' + note.id;
    body.replaceChildren(...pieces(note, button.dataset.at.split('-').map(Number)));
    dialog.showModal();
    const first = body.querySelector('.f');
    if (first) first.scrollIntoView({block: 'center'});
  });
  byId('note-close').addEventListener('click', () => dialog.close());
}

// The curves at a threshold
const curve = byId('curve-data');
if (curve) {
  const points = JSON.parse(curve.textContent), slider = byId('threshold');
  const show = value => value === null ? 'undefined' : value.toFixed(4);
  // As Python's: four significant digits, since thresholds of single tokens are far below 0.0001.
  const four = value => String(Number(value.toPrecision(4)));
  const rate = value => value === null ? 'undefined' : value.toFixed(2);
  const read = () => {
    const [threshold, precision, recall, f1, missed, spurious] = points[slider.max - slider.value];
    byId('r-threshold').textContent = four(threshold);
    byId('r-precision').textContent = show(precision);
    byId('r-recall').textContent = show(recall);
    byId('r-f1').textContent = show(f1);
    byId('r-fn').textContent = rate(missed);
    byId('r-fp').textContent = rate(spurious);
    slider.setAttribute('aria-valuetext',
      'threshold ' + four(threshold) + ', precision ' + show(precision) + ', recall ' + show(recall));
    const line = byId('threshold-line');
    const x = Number(line.dataset.x0) + Number(line.dataset.w) * threshold;
    line.setAttribute('x1', x);
    line.setAttribute('x2', x);
    const dot = byId('pr-dot');
    if (precision !== null && recall !== null) {
      dot.setAttribute('cx', Number(dot.dataset.x0) + Number(dot.dataset.w) * recall);
      dot.setAttribute('cy', Number(dot.dataset.y0) - Number(dot.dataset.h) * precision);
    }
  };
  slider.addEventListener('input', read);
  read();
}

// Tables wider than the screen
const measure = new ResizeObserver(entries => {
  for (const {target} of entries) {
    const box = target.closest('.scroll');
    box.parentElement.classList.toggle('overflows', box.scrollWidth > box.clientWidth + 1);
  }
});
for (const box of document.querySelectorAll('.scroll')) {
  measure.observe(box);
  measure.observe(box.firstElementChild);
}
})();
