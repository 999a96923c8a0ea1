package encoding

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// Run evaluates a batch with the network as a description says: it fills WDL and Policy. d differs from the given description at most in
// planes, rows and the value's perspective.
type Run func(ctx context.Context, d Description, b *eval.Batch) error

// Report is the result of checking a description with known positions.
type Report struct {
	Positions  int // number of known positions; on some boards too few for any conclusion
	Given      Score
	Best       Score       // of Fits
	Fits       Description // the best description: the given one, unless another is clearly better
	Asymmetric float64     // mean difference of values, 0 to 2, between positions and their mirror images; not used for the check
}

// Score is a network's accuracy on known positions. A network that knows nothing scores 0.5 and 0.
type Score struct {
	Value  float64 // share of positions whose value is on the right side of the median
	Policy float64 // mean probability of moves that keep a win, minus that of random moves
}

func (s Score) String() string {
	return fmt.Sprintf("values are right in %.0f%% and good moves get %.0f%% more than by chance", 100*s.Value, 100*s.Policy)
}

// MisfitError means that another description fits the network better.
type MisfitError struct {
	Report Report
	Lines  []string // lines of YAML, each with a field to change
}

func (e *MisfitError) Error() string {
	r := e.Report
	return fmt.Sprintf("description: it does not fit the network: of %d positions whose results are known, %v; with %s, %v",
		r.Positions, r.Given, strings.Join(e.Lines, " and "), r.Best)
}

// Another description counts as better if it exceeds all of these limits, which neither chance nor networks that know nothing come near.
const (
	minErrors     = 5   // standard errors of the mean difference
	minDifference = 0.1 // of the sum of both scores
	minSum        = 0.4 // by which both scores together exceed those of a network that knows nothing
)

// Diagnose compares a description with likely mistakes: own and other exchanged, or first and
// second; sides to move in place of players, or the reverse; the opposite order of rows; a quarter
// of inarow, which is a quarter already; values from another perspective; and all combinations. For
// each, the network evaluates some hundred positions whose results the solver proves quickly. If
// another description is clearly better, the error is a *MisfitError with the fields to change. For
// a network that has learned nothing, every description passes. Answers that are not finite are an
// error too.
func Diagnose(ctx context.Context, d Description, board *game.Board, run Run) (Report, error) {
	all, err := findKnown(ctx, board)
	if err != nil {
		return Report{Fits: d}, err
	}
	return diagnose(ctx, d, board, all, run)
}

// diagnose is Diagnose on the given positions.
func diagnose(ctx context.Context, d Description, board *game.Board, all []known, run Run) (r Report, err error) {
	r = Report{Positions: len(all), Fits: d}
	t := &trial{known: all, batch: eval.NewBatch(board, len(all)), run: run}
	if r.Asymmetric, err = t.asymmetry(ctx, d); err != nil {
		return r, err
	}
	if r.Positions < minKnown {
		return r, nil
	}
	var best, given result
	for i, v := range variants(d) {
		got, err := t.score(ctx, d, v)
		if err != nil {
			return r, err
		}
		if i == 0 {
			best, given = got, got
		} else if difference, off := got.than(best); difference > 2*off { // earlier variants change fewer fields
			best = got
		}
	}
	r.Given, r.Best = given.Score, given.Score
	difference, off := best.than(given)
	if difference < minDifference || difference < minErrors*off || best.Value-0.5+best.Policy < minSum {
		return r, nil
	}
	r.Best, r.Fits = best.Score, best.of.Description
	return r, &MisfitError{r, changes(d, r.Fits)}
}

// variant is a description and the number of fields in which it differs from the given one.
type variant struct {
	Description
	changed int
}

// variants returns the description and its likely mistakes, in ascending order of the number of fields that differ.
func variants(d Description) []variant {
	inputs := []variant{{d, 0}}
	add := func(change func(Description) Description) {
		for _, v := range slices.Clone(inputs) {
			other := change(v.Description)
			if !slices.ContainsFunc(inputs, func(x variant) bool { return x.Rows == other.Rows && slices.Equal(x.Planes, other.Planes) }) {
				inputs = append(inputs, variant{other, v.changed + 1})
			}
		}
	}
	if d.Layout != Patterns {
		add(func(d Description) Description { d.Planes = each(d.Planes, plane.swapped); return d })
		add(func(d Description) Description { d.Planes = each(d.Planes, plane.relative); return d })
		add(func(d Description) Description { d.Planes = each(d.Planes, plane.unquartered); return d })
		add(func(d Description) Description { d.Rows = map[Rows]Rows{Top: Bottom, Bottom: Top}[d.Rows]; return d })
	}
	var all []variant
	for _, v := range inputs {
		for _, p := range []Perspective{Mover, Other, First, Second} {
			x := v
			if x.Value.For != p {
				x.Value.For, x.changed = p, x.changed+1
			}
			all = append(all, x)
		}
	}
	slices.SortStableFunc(all, func(a, b variant) int { return cmp.Compare(a.changed, b.changed) })
	return all
}

// each applies change to planes. Planes that stay equal keep their text.
func each(planes []string, change func(plane) plane) []string {
	changed := make([]string, len(planes))
	for i, text := range planes {
		p, _ := parsePlane(text) // already validated
		if changed[i] = text; change(p) != p {
			changed[i] = change(p).String()
		}
	}
	return changed
}

// changes returns the lines of YAML in which d differs from the given description.
func changes(given, d Description) (lines []string) {
	if !slices.Equal(given.Planes, d.Planes) {
		lines = append(lines, "planes: ["+strings.Join(d.Planes, ", ")+"]")
	}
	if given.Rows != d.Rows {
		lines = append(lines, "rows: "+string(d.Rows))
	}
	if given.Value != d.Value {
		output := ""
		if d.Value.Output != "" {
			output = "output: " + d.Value.Output + ", "
		}
		lines = append(lines, fmt.Sprintf("value: {%skind: %s, for: %s}", output, d.Value.Kind, d.Value.For))
	}
	return lines
}

// trial runs a network on known positions.
type trial struct {
	known []known
	batch *eval.Batch
	run   Run
	cache []answers
}

// answers are the network's answers with one way to fill the input.
type answers struct {
	planes []string
	rows   Rows
	values []float64 // for the mover, according to the perspective of the given description
	policy []float64 // probability of good moves minus that of a random move; 0 in lost positions
}

// result is a variant's accuracy on each position: 1 if its value is right, 0 if it is wrong, 1/2 at the median; and answers.policy.
type result struct {
	Score
	of    variant
	value []float64
	gain  []float64
}

// than returns the mean difference between two results, and its standard error.
func (r result) than(other result) (mean, off float64) {
	n := float64(len(r.value))
	var sum, squares float64
	for i := range r.value {
		x := r.value[i] + r.gain[i] - other.value[i] - other.gain[i]
		sum, squares = sum+x, squares+x*x
	}
	mean = sum / n
	return mean, math.Sqrt(max(0, squares/n-mean*mean) / n)
}

// score runs the network, unless an earlier variant filled the input in the same way.
func (t *trial) score(ctx context.Context, given Description, v variant) (r result, err error) {
	at := slices.IndexFunc(t.cache, func(a answers) bool { return a.rows == v.Rows && slices.Equal(a.planes, v.Planes) })
	if at < 0 {
		d := v.Description
		d.Value.For = given.Value.For
		a, err := t.ask(ctx, d)
		if err != nil {
			return r, err
		}
		at, t.cache = len(t.cache), append(t.cache, a)
	}
	a := t.cache[at]
	r = result{of: v, gain: a.policy, value: make([]float64, len(t.known))}
	for i, k := range t.known {
		mover := k.position.Mover()
		if r.value[i] = a.values[i]; v.Value.For.turned(mover) != given.Value.For.turned(mover) {
			r.value[i] = -r.value[i]
		}
	}
	sorted := slices.Sorted(slices.Values(r.value))
	median := (sorted[len(sorted)/2] + sorted[(len(sorted)-1)/2]) / 2
	for i, k := range t.known {
		switch {
		case r.value[i] == median:
			r.value[i] = 0.5
		case r.value[i] > median == k.won:
			r.value[i] = 1
		default:
			r.value[i] = 0
		}
		r.Value += r.value[i] / float64(len(t.known))
		r.Policy += 2 * r.gain[i] / float64(len(t.known)) // half of the positions are won, and only these count
	}
	return r, nil
}

// ask evaluates the known positions under a description.
func (t *trial) ask(ctx context.Context, d Description) (a answers, err error) {
	b := t.batch
	for i, k := range t.known {
		b.Pos[i] = k.position
	}
	if err := t.answer(ctx, d); err != nil {
		return a, err
	}
	a = answers{d.Planes, d.Rows, make([]float64, len(t.known)), make([]float64, len(t.known))}
	for i, k := range t.known {
		a.values[i] = float64(b.Value(i))
		if !k.won {
			continue
		}
		for set := k.good; !set.IsZero(); set = set.WithoutFirst() {
			a.policy[i] += float64(b.PolicyRow(i)[b.Board.Action(set.First())])
		}
		a.policy[i] -= float64(k.good.OnesCount()) / float64(b.Board.Legal(k.position).OnesCount())
	}
	return a, nil
}

// answer runs the network on the batch.
func (t *trial) answer(ctx context.Context, d Description) error {
	if len(t.batch.Pos) == 0 {
		return nil
	}
	if err := t.run(ctx, d, t.batch); err != nil {
		return fmt.Errorf("check the description: %w", err)
	}
	if err := t.batch.Finite(); err != nil {
		return fmt.Errorf("check the description: %w", err)
	}
	return nil
}

// asymmetry returns the mean difference of values between positions and their mirror images.
func (t *trial) asymmetry(ctx context.Context, d Description) (sum float64, err error) {
	if len(t.known) == 0 {
		return 0, nil
	}
	var values [2][]float32
	for side := range values {
		for i, k := range t.known {
			if t.batch.Pos[i] = k.position; side == 1 {
				t.batch.Pos[i] = t.batch.Board.Mirror(k.position)
			}
		}
		if err := t.answer(ctx, d); err != nil {
			return 0, err
		}
		for i := range t.known {
			values[side] = append(values[side], t.batch.Value(i))
		}
	}
	for i, v := range values[0] {
		sum += math.Abs(float64(v - values[1][i]))
	}
	return sum / float64(len(t.known)), nil
}
