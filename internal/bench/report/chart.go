package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// The size of a chart in its own units; the page scales it to its width.
const (
	width, height          = 420.0, 220.0
	right, top, underneath = 14.0, 24.0, 40.0
	// letter is how wide one of a label is, at most: the left edge leaves room for the longest label.
	letter = 8.0
	// mostPoints of a line; longer ones are thinned.
	mostPoints = 240
	// farApart are values of which the least cannot be told from 0 on an even axis.
	farApart = 20
)

type point struct{ x, y float64 }

// line of a chart. Its number is its colour and pattern.
type line struct {
	name   string
	points []point
	// peaks are kept when the line is thinned; else means are.
	peaks bool
}

// band is a part of the x axis that is shaded.
type band struct {
	name     string
	from, to float64
}

type chart struct {
	title string
	// write a value of the y axis, and of the x axis; units are what the axes count.
	y, x         func(float64) string
	yUnit, xUnit string
	// wide lets the y axis be logarithmic, where values are far apart.
	wide  bool
	lines []line
	bands []band
	// limit is a line across, such as a quota; nil for none.
	limit     *float64
	limitName string
	// ticks of the x axis; nil for round numbers.
	ticks []float64
}

// chartView is what the page draws. Coordinates are text, so that the page is the same everywhere.
type chartView struct {
	Title, Label string
	YUnit, XUnit string
	ViewBox      string
	// Unmeasured are the names of the bands, for the legend.
	Unmeasured string
	Lines      []lineView
	Bands      []rectView
	YTicks     []tickView
	XTicks     []tickView
	Hits       []rectView
	Limit      *lineView
	// Edges of the drawing area.
	Left, Right, Top, Bottom string
}

type lineView struct {
	Name, Class, Path, Y string
}

type rectView struct{ X, Y, Width, Height, Text string }

type tickView struct{ At, Text string }

func coordinate(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }

// axis of values.
type axis struct {
	steps         []float64
	floor, height float64 // of the values, or of their logarithms
	logarithmic   bool
}

// share of the axis' length at which a value is.
func (a axis) share(v float64) float64 {
	if a.logarithmic {
		v = math.Log10(max(v, a.steps[0]))
	}
	return (v - a.floor) / a.height
}

// axis for values up to highest. It is logarithmic if it may be and the lowest line would lie on the bottom.
func (c chart) axis(highest float64) axis {
	if c.wide {
		lowest := math.Inf(1)
		for _, l := range c.lines {
			for _, p := range l.points {
				if p.y > 0 {
					lowest = min(lowest, p.y)
				}
			}
		}
		if highest > farApart*lowest {
			from, to := math.Floor(math.Log10(lowest)+1e-9), math.Ceil(math.Log10(highest)-1e-9)
			a := axis{floor: from, height: to - from, logarithmic: true}
			for at := from; at <= to; at++ {
				a.steps = append(a.steps, math.Pow(10, at))
			}
			return a
		}
	}
	steps := roundSteps(highest)
	return axis{steps: steps, height: steps[len(steps)-1]}
}

// draw makes the view of a chart; nil when there is nothing to draw.
func (c chart) draw() *chartView {
	highest, first, last := c.extent()
	c.lines = slices.DeleteFunc(slices.Clone(c.lines), func(l line) bool { return len(l.points) == 0 })
	if len(c.lines) == 0 || last <= first {
		return nil
	}
	if c.limit != nil && *c.limit <= 3*highest {
		highest = max(highest, *c.limit)
	}
	y := c.axis(highest)
	longest := 0
	for _, step := range y.steps {
		longest = max(longest, len([]rune(c.y(step))))
	}
	left := 10 + letter*float64(longest)
	xOf := func(v float64) float64 { return left + (v-first)/(last-first)*(width-left-right) }
	yOf := func(v float64) float64 { return height - underneath - y.share(v)*(height-top-underneath) }
	v := &chartView{
		Title: c.title, ViewBox: fmt.Sprintf("0 0 %g %g", width, height), YUnit: c.yUnit, XUnit: c.xUnit,
		Left: coordinate(left), Right: coordinate(width - right), Top: coordinate(top), Bottom: coordinate(height - underneath),
	}
	if y.logarithmic {
		v.YUnit += ", logarithmic"
	}
	for _, step := range y.steps {
		v.YTicks = append(v.YTicks, tickView{coordinate(yOf(step)), c.y(step)})
	}
	for _, tick := range c.xTicks(first, last) {
		v.XTicks = append(v.XTicks, tickView{coordinate(xOf(tick)), c.x(tick)})
	}
	v.shade(c.bands, first, last, xOf)
	var said []string
	for i, l := range c.lines {
		v.Lines = append(v.Lines, lineView{Name: l.name, Class: classOfLine(i), Path: l.path(xOf, yOf)})
		said = append(said, fmt.Sprintf("%s up to %s", l.name, c.y(slices.MaxFunc(l.points, func(a, b point) int { return cmp.Compare(a.y, b.y) }).y)))
	}
	if c.limit != nil && *c.limit <= y.steps[len(y.steps)-1] {
		v.Limit = &lineView{Name: c.limitName, Y: coordinate(yOf(*c.limit))}
		said = append(said, c.limitName+" "+c.y(*c.limit))
	}
	v.Label = c.title + ": " + strings.Join(said, ", ")
	v.Hits = c.hits(xOf)
	return v
}

// colours that lines have; those beyond have them again, with another pattern.
const colours = 6

func classOfLine(i int) string {
	class := fmt.Sprintf("l%d", i%colours+1)
	if i >= colours {
		class += " more"
	}
	return class
}

// shade the phases that are not measured.
func (v *chartView) shade(bands []band, first, last float64, xOf func(float64) float64) {
	var names []string
	for _, b := range bands {
		from, to := max(b.from, first), min(b.to, last)
		if to > from {
			v.Bands = append(v.Bands, rectView{X: coordinate(xOf(from)), Width: coordinate(xOf(to) - xOf(from)), Text: b.name})
			names = append(names, b.name)
		}
	}
	if len(names) > 0 {
		v.Unmeasured = strings.Join(names, ", ")
	}
}

// extent thins the lines and finds what they reach.
func (c chart) extent() (highest, first, last float64) {
	first, last = math.Inf(1), math.Inf(-1)
	for i := range c.lines {
		c.lines[i].thin()
		for _, p := range c.lines[i].points {
			highest = max(highest, p.y)
			first, last = min(first, p.x), max(last, p.x)
		}
	}
	return highest, first, last
}

func (c chart) xTicks(first, last float64) []float64 {
	ticks := c.ticks
	if ticks == nil {
		ticks = roundSteps(last)
	}
	return slices.DeleteFunc(slices.Clone(ticks), func(tick float64) bool { return tick < first || tick > last })
}

// path is that of SVG.
func (l line) path(xOf, yOf func(float64) float64) string {
	var b strings.Builder
	for i, p := range l.points {
		letter := "L"
		if i == 0 {
			letter = "M"
		}
		b.WriteString(letter + coordinate(xOf(p.x)) + " " + coordinate(yOf(p.y)))
	}
	return b.String()
}

// thin keeps the line's shape in at most mostPoints points.
func (l *line) thin() {
	n := len(l.points)
	if n <= mostPoints {
		return
	}
	kept := make([]point, 0, mostPoints)
	for i := range mostPoints {
		part := l.points[i*n/mostPoints : (i+1)*n/mostPoints]
		p := point{x: part[0].x}
		for _, q := range part {
			if l.peaks {
				p.y = max(p.y, q.y)
			} else {
				p.y += q.y / float64(len(part))
			}
		}
		kept = append(kept, p)
	}
	l.points = kept
}

// hits are invisible columns that tell their values when one points at them: one for each point of the longest line.
func (c chart) hits(xOf func(float64) float64) []rectView {
	longest := slices.MaxFunc(c.lines, func(a, b line) int { return len(a.points) - len(b.points) })
	var out []rectView
	for i, p := range longest.points {
		from, to := xOf(p.x), xOf(p.x)
		if i > 0 {
			from = (xOf(longest.points[i-1].x) + from) / 2
		}
		if i < len(longest.points)-1 {
			to = (xOf(longest.points[i+1].x) + to) / 2
		}
		text := c.x(p.x)
		if c.xUnit == secondsUnit {
			text += space + "s"
		}
		for _, l := range c.lines {
			if at, ok := l.nearest(p.x); ok {
				text += "\n" + l.name + " " + c.y(at.y)
			}
		}
		out = append(out, rectView{X: coordinate(from), Width: coordinate(to - from), Text: text})
	}
	return out
}

// nearest is the last point at or before x, or else the first.
func (l line) nearest(x float64) (point, bool) {
	if len(l.points) == 0 {
		return point{}, false
	}
	i, found := slices.BinarySearchFunc(l.points, x, func(p point, x float64) int { return cmp.Compare(p.x, x) })
	if !found && i > 0 {
		i--
	}
	return l.points[i], true
}

// roundSteps are three to six round numbers from 0 to at least highest.
func roundSteps(highest float64) []float64 {
	if !(highest > 0) {
		highest = 1
	}
	size := math.Pow(10, math.Floor(math.Log10(highest)))
	step := size
	for _, times := range []float64{0.2, 0.25, 0.5, 1, 2} {
		if step = size * times; step*5 >= highest {
			break
		}
	}
	var out []float64
	for i := 0; ; i++ {
		out = append(out, float64(i)*step)
		if float64(i)*step >= highest*(1-1e-9) {
			return out
		}
	}
}
