package layout

// Tab is one view of a thing.
type Tab struct {
	Text, Note, URL, Press string
	On                     bool
}

// Part is one stretch of a bar.
type Part struct {
	Text  string
	Class string // fill-…
	Value float64
	Note  string // the value in words
}

// Sum is what the parts of a bar add up to.
func Sum(parts []Part) (sum float64) {
	for _, p := range parts {
		sum += p.Value
	}
	return sum
}

// Filled are the parts that are there, with where each begins and how wide it
// is, as shares of whole; whole 0 is their sum. What is there at all stays wide
// enough to be seen.
func Filled(parts []Part, whole float64) (out []Stretch) {
	if whole == 0 {
		whole = Sum(parts)
	}
	sum := 0.0
	for _, p := range parts {
		if p.Value > 0 && whole > 0 {
			w := max(p.Value/whole, 0.002)
			out = append(out, Stretch{Part: p, From: sum, Width: w})
			sum += w
		}
	}
	for i := range out { // what was made wider must not push out the end
		out[i].From, out[i].Width = out[i].From/max(1, sum), out[i].Width/max(1, sum)
	}
	return out
}

// Stretch is a part with its place.
type Stretch struct {
	Part
	From, Width float64
}

// Line is the path of a line through values, over a width of 1000 and a height
// of 100, highest at most; the curve is not smoothed.
func Line(values []float64, highest float64) string {
	if len(values) == 0 || highest <= 0 {
		return ""
	}
	d := make([]byte, 0, 16*len(values))
	for i, v := range values {
		x := 1000 * float64(i)
		if len(values) > 1 {
			x /= float64(len(values) - 1)
		}
		op := byte('L')
		if i == 0 {
			op = 'M'
		}
		d = append(append(append(append(d, op), Num(x)...), ' '), Num(100-100*min(v/highest, 1))...)
	}
	if len(values) == 1 {
		d = append(append(d, "L1000 "...), Num(100-100*min(values[0]/highest, 1))...)
	}
	return string(d)
}

// Area is Line closed along the bottom.
func Area(values []float64, highest float64) string {
	line := Line(values, highest)
	if line == "" {
		return ""
	}
	return line + "L1000 100L0 100Z"
}

// Highest is the greatest of all values, and at least floor.
func Highest(floor float64, lists ...[]float64) float64 {
	for _, l := range lists {
		for _, v := range l {
			floor = max(floor, v)
		}
	}
	return floor
}

// Steps are round values for an axis up to highest, about n of them.
func Steps(highest float64, n int) (out []float64) {
	if highest <= 0 || n < 1 {
		return nil
	}
	step := 1.0
	for step*float64(n) < highest {
		for _, f := range []float64{2, 5, 10} {
			if step*f*float64(n) >= highest {
				step *= f
				break
			}
			if f == 10 {
				step *= 10
			}
		}
	}
	for v := step; v <= highest; v += step {
		out = append(out, v)
	}
	return out
}
