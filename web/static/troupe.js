// The dashboard works without this script. It renews what is shown, keeps the theme, and has keys.
(() => {
  'use strict';
  const root = document.documentElement;
  const policy = window.trustedTypes ? trustedTypes.createPolicy('troupe', { createHTML: (text) => text }) : { createHTML: (text) => text };

  // theme: that of the system, until somebody chooses
  const stored = () => { try { return localStorage.getItem('troupe-theme'); } catch { return null; } };
  const dark = () => (root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches);
  if (stored()) root.dataset.theme = stored();

  const ready = (fn) => (document.readyState === 'loading' ? document.addEventListener('DOMContentLoaded', fn) : fn());
  ready(() => {
    const button = document.querySelector('[data-theme-toggle]');
    const label = () => { button.textContent = dark() ? 'Light' : 'Dark'; button.setAttribute('aria-label', button.textContent + ' theme'); };
    button.hidden = false;
    label();
    button.addEventListener('click', () => {
      root.dataset.theme = dark() ? 'light' : 'dark';
      try { localStorage.setItem('troupe-theme', root.dataset.theme); } catch { /* for this page only */ }
      label();
    });
    nav(0);
    zone();
    live();
    addEventListener('keydown', key);
  });

  // zone has the titles of times tell them in the viewer's zone, too; pages tell UTC
  const here = new Intl.DateTimeFormat([], { dateStyle: 'medium', timeStyle: 'long' });
  const zone = () => {
    for (const el of document.querySelectorAll('time[datetime]:not([data-zone]), .deploy[data-at]:not([data-zone])')) {
      const at = new Date(el.dateTime ?? el.dataset.at), title = el.querySelector('title'); // of a mark on a chart
      if (isNaN(at) || !at.getTimezoneOffset()) continue;
      el.dataset.zone = '';
      if (title) title.textContent += ' \u2013 ' + here.format(at);
      else el.title += (el.title ? ' \u2013 ' : '') + here.format(at);
    }
  };
  document.addEventListener('troupe:renewed', zone);

  // nav has the strip of pages of small screens where it was, or show the page that is open
  const nav = (left) => {
    const strip = document.querySelector('nav.side'), now = strip.querySelector('[aria-current]');
    strip.scrollLeft = left || (now ? now.offsetLeft - 40 : 0);
  };

  // renewal: what <main> shows is fetched again and put in its place
  const main = () => document.getElementById('main');
  // busy tells whether somebody is at something that a renewal would disturb
  const busy = () => paused || document.hidden || document.querySelector('dialog[open]') || main().querySelector('input:checked:not([data-kept]), .act details[open]') ||
    main().contains(document.activeElement) && document.activeElement.matches('input, select, textarea, button') || !getSelection().isCollapsed;
  const path = (el) => {
    const steps = [];
    for (; el && el !== main(); el = el.parentElement) steps.unshift([...el.parentElement.children].indexOf(el));
    return steps;
  };
  const at = (steps) => steps.reduce((el, n) => el && el.children[n], main());
  let due = false, fetching = false, paused = false;
  async function renew() {
    if (busy() || fetching) { due = true; return; }
    due = false;
    fetching = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: 'text/html' }, redirect: 'error' });
      const page = new DOMParser().parseFromString(policy.createHTML(await answer.text()), 'text/html');
      const next = page.getElementById('main');
      if (!next || busy()) { due = true; return; }
      const open = [...main().querySelectorAll('details[open]')].map(path);
      const focus = main().contains(document.activeElement) && document.activeElement !== main() ? path(document.activeElement) : null;
      const scrolled = [...main().querySelectorAll('.scroll, pre')].filter((el) => el.scrollLeft || el.scrollTop).map((el) => [path(el), el.scrollLeft, el.scrollTop]);
      const [x, y] = [scrollX, scrollY];
      main().replaceWith(document.adoptNode(next));
      for (const steps of open) { const el = at(steps); if (el && el.tagName === 'DETAILS') el.open = true; }
      for (const [steps, left, top] of scrolled) { const el = at(steps); if (el) el.scrollTo(left, top); }
      if (focus) { const el = at(focus); if (el) pick(el); }
      scrollTo(x, y);
      for (const part of ['nav.side', 'footer']) {
        const now = document.querySelector(part), then = page.querySelector(part);
        if (!now || !then || now.contains(document.activeElement)) continue;
        const left = now.scrollLeft;
        now.replaceWith(document.adoptNode(then));
        if (part === 'nav.side') nav(left);
      }
      document.dispatchEvent(new Event('troupe:renewed'));
    } catch { /* the next time */ } finally { fetching = false; if (due && !busy()) setTimeout(renew, 1000); }
  }

  // live: the server says when; where it cannot, every ten seconds
  function live() {
    const topic = main().dataset.topic;
    if (!topic) return;
    let poll = 0, source;
    const stop = () => { clearInterval(poll); poll = 0; if (source) source.close(); source = null; };
    const begin = () => {
      if (source || document.hidden) return;
      source = new EventSource(document.body.dataset.live + '?topic=' + encodeURIComponent(topic));
      source.addEventListener('change', renew);
      source.onopen = () => { clearInterval(poll); poll = 0; };
      source.onerror = () => { if (!poll) poll = setInterval(renew, 10000); };
    };
    // a hidden page gives its connection back: a browser has six for a host
    document.addEventListener('visibilitychange', () => { if (document.hidden) stop(); else { begin(); renew(); } });
    document.addEventListener('focusout', () => { if (due) setTimeout(renew, 500); });
    document.addEventListener('change', () => { if (due) setTimeout(renew, 500); });
    addEventListener('pagehide', stop);
    begin();
  }

  // ticked rows: all of the page at once, and how many there are
  function ticks() {
    const form = document.getElementById('tick'), head = document.querySelector('th.tick');
    if (!form || !head) return;
    const boxes = [...document.querySelectorAll('input[form=tick]')], n = boxes.filter((box) => box.checked).length;
    let all = head.querySelector('input');
    if (!all) {
      all = document.createElement('input');
      all.type = 'checkbox';
      all.setAttribute('aria-label', 'Choose all of this page');
      head.append(all);
    }
    all.checked = n === boxes.length;
    all.indeterminate = n > 0 && n < boxes.length;
    form.classList.toggle('any', n > 0);
    form.querySelector('.ticked').textContent = n ? n + ' of ' + boxes.length + ' ticked' : 'Ticked rows';
    for (const button of form.querySelectorAll('button')) button.disabled = n === 0;
  }
  document.addEventListener('change', (e) => {
    if (e.target.matches('th.tick input')) for (const box of document.querySelectorAll('input[form=tick]')) box.checked = e.target.checked;
    ticks();
  });
  document.addEventListener('troupe:renewed', ticks);
  addEventListener('pageshow', ticks);
  // keys: rows are walked with j and k, and have the focus; what a key does is the control with its data-key
  const inMain = (selector) => [...main().querySelectorAll(selector)].filter((el) => el.offsetParent);
  const current = () => { const row = document.activeElement.closest('tbody tr'); return row && main().contains(row) ? row : null; };
  function pick(el) {
    if (el.tagName === 'TR') el.tabIndex = -1;
    el.focus({ preventScroll: true });
  }
  function walk(by) {
    const rows = inMain('tbody tr'), now = rows.indexOf(current());
    const row = rows[now < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(now + by, 0), rows.length - 1)];
    if (row) { pick(row); row.scrollIntoView({ block: 'nearest' }); }
  }
  const press = (name, where) => {
    const el = where.find((el) => el && el.dataset.key === name);
    if (el) el.click();
    return Boolean(el);
  };
  let going = 0;
  function key(e) {
    const typing = e.target.closest('input:not([type=checkbox]), select, textarea, [contenteditable]');
    if (e.key === 'Escape' && typing) { e.target.blur(); return; }
    if (e.ctrlKey || e.metaKey || e.altKey || typing || document.querySelector('dialog[open]')) return;
    const row = current();
    if (going && e.timeStamp - going < 1500) {
      going = 0;
      if (press('g' + e.key, [...document.querySelectorAll('nav.side [data-key]')])) e.preventDefault();
      return;
    }
    going = 0;
    const box = row && row.querySelector('input[type=checkbox]');
    const field = document.querySelector('[data-key="/"]') || inMain('input[type=search], .filter input')[0];
    const does = {
      g: () => { going = e.timeStamp; }, j: () => walk(1), k: () => walk(-1), '?': help,
      '.': () => { paused = !paused; state(); if (!paused) renew(); },
      ArrowDown: row && e.target === row && (() => walk(1)), ArrowUp: row && e.target === row && (() => walk(-1)),
      Enter: row && e.target === row && (() => { const link = row.querySelector('.jid a, a[href]:not(.plain)') || row.querySelector('a[href]'); if (link) link.click(); }),
      x: box && (() => box.click()), '/': field && (() => { field.focus(); field.select(); }),
    }[e.key];
    if (does) { does(); e.preventDefault(); return; }
    // a capital acts: on the row, or else on the page
    if (/^[A-Z]$/.test(e.key)) press(e.key, [...(row ? row.querySelectorAll('[data-key]') : []), ...inMain('[data-key]').filter((el) => !el.closest('tbody'))]);
  }
  const make = (name, text, ...inside) => { const el = document.createElement(name); el.textContent = text; el.append(...inside); return el; };
  function state() {
    let tag = document.querySelector('.who .paused');
    if (!tag) { tag = make('span', 'paused'); tag.className = 'tag paused'; tag.setAttribute('role', 'status'); document.querySelector('.who').prepend(tag); }
    tag.hidden = !paused;
  }
  function help() {
    const keys = [['/', 'search'], ['j k', 'next and previous row'], ['Enter', 'open the row'], ['x', 'choose the row'], ['.', 'pause and go on renewing'], ['?', 'this help']];
    for (const el of document.querySelectorAll('nav.side [data-key]')) keys.push([el.dataset.key.split('').join(' '), el.firstChild.textContent]);
    for (const el of inMain('[data-key]')) if (/^[A-Z]$/.test(el.dataset.key) && !keys.some((k) => k[0] === el.dataset.key)) keys.push([el.dataset.key, el.textContent.replace('…', '')]);
    const list = make('dl', '');
    for (const [k, what] of keys) list.append(make('dt', '', make('kbd', k)), make('dd', what));
    const close = make('button', 'Close');
    const dialog = make('dialog', '', make('h2', 'Keys'), list, close);
    dialog.setAttribute('aria-label', 'Keys');
    close.addEventListener('click', () => dialog.close());
    dialog.addEventListener('close', () => { dialog.remove(); if (due) renew(); });
    document.body.append(dialog);
    dialog.showModal();
  }
})();
