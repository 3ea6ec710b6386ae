(function(){'use strict';
const byId=id=>document.getElementById(id);
const cards=[...document.querySelectorAll('.error')];
const fields={kind:byId('f-kind'),label:byId('f-label'),note:byId('f-note'),words:byId('f-words')};
function wanted(card){
  const d=card.dataset;
  if(fields.kind.value&&d.kind!==fields.kind.value)return false;
  if(fields.label.value&&d.gold!==fields.label.value&&d.system!==fields.label.value)return false;
  if(fields.note&&fields.note.value&&d.note!==fields.note.value)return false;
  const words=fields.words.value.trim().toLowerCase();
  return !words||card.textContent.toLowerCase().includes(words);
}
function filter(){
  let shown=0;
  for(const card of cards){card.hidden=!wanted(card);if(!card.hidden)shown++;}
  for(const group of document.querySelectorAll('details.kind')){
    const left=group.querySelectorAll('.error:not([hidden])').length;
    group.hidden=left===0;
    group.querySelector('.left').textContent=left===Number(group.dataset.all)?'':' ('+left+' match)';
    if(anySet()&&left)group.open=true;
  }
  byId('shown').textContent=shown+' of '+cards.length+' listed errors shown';
}
function anySet(){return Object.values(fields).some(f=>f&&f.value);}
if(cards.length){
  for(const f of Object.values(fields))if(f)f.addEventListener('input',filter);
  byId('clear').addEventListener('click',()=>{for(const f of Object.values(fields))if(f)f.value='';filter();
    fields.kind.focus();});
  filter();
}
let at=-1;
document.addEventListener('keydown',event=>{
  if(event.ctrlKey||event.metaKey||event.altKey||/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName))return;
  if(document.querySelector('dialog[open]'))return;
  const step=event.key==='j'?1:event.key==='k'?-1:0;
  if(!step)return;
  const seen=cards.filter(card=>card.offsetParent!==null);
  if(!seen.length)return;
  const now=seen.indexOf(document.activeElement.closest('.error'));
  at=now>=0?now+step:Math.max(0,at);
  at=Math.min(seen.length-1,Math.max(0,at));
  seen[at].focus();seen[at].scrollIntoView({block:'nearest'});
});
const stored=byId('notes');
const dialog=byId('note-dialog');
if(stored&&dialog){
  const notes=JSON.parse(stored.textContent);
  const pieces=(note,focus)=>{
    // Offsets count characters, not the halves of characters that strings are made of here.
    const text=[...note.text];
    const cuts=[...new Set([0,text.length,...note.gold.flatMap(s=>[s[0],s[1]]),
      ...note.system.flatMap(s=>[s[0],s[1]])])].sort((a,b)=>a-b);
    const over=(spans,a,b)=>spans.filter(s=>s[0]<b&&a<s[1]);
    return cuts.slice(0,-1).map((a,i)=>{
      const b=cuts[i+1],gold=over(note.gold,a,b),system=over(note.system,a,b);
      const words=text.slice(a,b).join('');
      if(!gold.length&&!system.length)return document.createTextNode(words);
      const mark=document.createElement('mark');
      mark.className=(gold.length?'g ':'')+(system.length?'s ':'')+(focus&&focus[0]<b&&a<focus[1]?'f':'');
      mark.title=[...gold.map(s=>'gold '+s[2]),...system.map(s=>'system '+s[2])].join('; ');
      mark.textContent=words;
      return mark;
    });
  };
  document.addEventListener('click',event=>{
    const button=event.target.closest('button[data-open]');
    if(!button)return;
    const note=notes[button.dataset.open];
    const body=byId('note-text');
    byId('note-title').textContent='Note '+note.id;
    body.replaceChildren(...pieces(note,button.dataset.at.split('-').map(Number)));
    dialog.showModal();
    const first=body.querySelector('.f');
    if(first)first.scrollIntoView({block:'center'});
  });
  byId('note-close').addEventListener('click',()=>dialog.close());
}
const curve=byId('curve-data');
if(curve){
  const points=JSON.parse(curve.textContent),slider=byId('threshold');
  const show=v=>v===null?'undefined':v.toFixed(4);
  const rate=v=>v===null?'undefined':v.toFixed(2);
  const read=()=>{
    const p=points[slider.max-slider.value];
    byId('r-threshold').textContent=show(p[0]);byId('r-precision').textContent=show(p[1]);
    byId('r-recall').textContent=show(p[2]);byId('r-f1').textContent=show(p[3]);
    byId('r-fn').textContent=rate(p[4]);byId('r-fp').textContent=rate(p[5]);
    slider.setAttribute('aria-valuetext','threshold '+show(p[0])+', precision '+show(p[1])+', recall '+show(p[2]));
    for(const line of document.querySelectorAll('[data-x0]')){
      const x=Number(line.dataset.x0)+Number(line.dataset.w)*p[0];
      line.setAttribute('x1',x);line.setAttribute('x2',x);
    }
    const dot=byId('pr-dot');
    if(p[1]!==null&&p[2]!==null){
      dot.setAttribute('cx',Number(dot.dataset.x0)+Number(dot.dataset.w)*p[2]);
      dot.setAttribute('cy',Number(dot.dataset.y0)-Number(dot.dataset.h)*p[1]);
    }
  };
  slider.addEventListener('input',read);read();
}
})();
