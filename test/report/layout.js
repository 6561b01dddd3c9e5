(() => {
  const faults = [], told = new Set()
  const tell = (what, element) => {
    const text = (element.textContent || element.tagName).trim().replace(/\s+/g, ' ').slice(0, 60)
    const fault = `${what}: ${element.tagName.toLowerCase()} "${text}"`
    if (!told.has(fault)) { told.add(fault); faults.push(fault) }
  }
  const width = document.documentElement.clientWidth
  if (document.documentElement.scrollWidth > width) {
    faults.push(`the page is ${document.documentElement.scrollWidth} wide, wider than the screen with ${width}`)
  }

  // [red, green, blue, alpha] of a colour as computed styles have it.
  const colour = text => {
    const parts = (text.match(/[\d.]+/g) || []).map(Number)
    return parts.length < 3 ? [0, 0, 0, 0] : [parts[0], parts[1], parts[2], parts.length > 3 ? parts[3] : 1]
  }
  const over = (top, under) => [0, 1, 2].map(i => top[i] * top[3] + under[i] * (1 - top[3])).concat(1)
  const behind = element => {
    const layers = []
    for (let e = element; e; e = e.parentElement) layers.push(colour(getComputedStyle(e).backgroundColor))
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1])
  }
  const luminance = c => {
    const [r, g, b] = c.slice(0, 3).map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 })
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const contrast = (a, b) => {
    const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p)
    return (x + 0.05) / (y + 0.05)
  }

  const shown = e => e.checkVisibility() && e.getClientRects().length > 0
  for (const e of document.body.querySelectorAll('*')) {
    if (!shown(e) || e.closest('title, script, style')) continue
    const box = e.getBoundingClientRect()
    if (!e.closest('svg') && (box.right > width + 1 || box.left < -1)) tell('reaches out of the screen', e)
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())
    if (!own) continue
    const style = getComputedStyle(e), inside = e.closest('svg')
    const ratio = contrast(colour(inside ? style.fill : style.color), behind(inside || e))
    if (ratio < 4.5) tell(`contrast of ${ratio.toFixed(1)}, less than 4.5`, e)
    if (!inside && style.overflow !== 'visible' && e.scrollWidth > e.clientWidth + 1) tell('is cut off', e)
    let size = parseFloat(style.fontSize)
    if (inside && inside.viewBox.baseVal.width) size *= inside.getBoundingClientRect().width / inside.viewBox.baseVal.width
    if (size < 9.5) tell(`letters of ${size.toFixed(1)} px, too small`, e)
  }

  for (const svg of document.querySelectorAll('figure > svg')) {
    if (!shown(svg)) continue
    const frame = svg.getBoundingClientRect()
    const texts = [...svg.querySelectorAll('text')].map(e => [e, e.getBoundingClientRect()])
    texts.forEach(([e, box], i) => {
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1) tell('is outside its chart', e)
      for (const [other, its] of texts.slice(i + 1)) {
        const apart = box.right <= its.left || its.right <= box.left || box.bottom <= its.top + 2 || its.bottom <= box.top + 2
        if (!apart) tell(`overlap with "${other.textContent}"`, e)
      }
    })
    for (const path of svg.querySelectorAll('path')) {
      const ratio = contrast(colour(getComputedStyle(path).stroke), behind(svg))
      if (ratio < 3) tell(`contrast of a line of ${ratio.toFixed(1)}, less than 3`, path)
    }
  }
  return faults
})()
