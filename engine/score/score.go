// Package score measures evaluators against exact scores: how often the likeliest move is among the best, how much score it gives away, and
// how well the value predicts the result.
package score

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver"
)

// Position is a position with the exact score of each move, for the side to move: s > 0 wins, and a faster win scores more;
// 0 draws; s < 0 loses.
type Position struct {
	State  game.State
	Scores []int // by action; solver.NoMove if it cannot be played

	// Only for a position from a Reader: the number of its line, and the score of a line `moves score`. In the latter case Scores is nil.
	Line, Score int

	// Kind is the origin of the position, for Report.Kinds; positions with Kind "" are in none.
	Kind string
}

// Mean is a mean with the bounds of its 95% interval by the normal approximation, or a rate with those of Wilson's interval
// (E. B. Wilson, 1927).
type Mean struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Summary is the accuracy over some positions. Equally likely moves share the credit.
type Summary struct {
	Name      string `json:"name"`
	Positions int    `json:"positions"`
	Perfect   Mean   `json:"perfect"`             // rate of moves with the best exact score
	Good      Mean   `json:"good"`                // rate of moves that do not worsen win, draw or loss
	Regret    Mean   `json:"regret"`              // mean of the best score minus that of the move
	ValueSign Mean   `json:"value_sign,omitzero"` // rate at which the likeliest of win, draw and loss is the exact result
	Brier     Mean   `json:"brier,omitzero"`      // mean squared distance of WDL from the exact result, 0 to 2
	Decisive  int    `json:"decisive"`            // positions whose exact result is a win or a loss
	// Rate at which W - L has the sign of the exact result, over the decisive positions only; W - L = 0 never counts.
	DecisiveSign Mean `json:"decisive_sign,omitzero"`
	Critical     int  `json:"critical"` // positions in which a legal move worsens the result
	// The first two rates over the critical positions only.
	CriticalPerfect Mean `json:"critical_perfect"`
	CriticalGood    Mean `json:"critical_good"`
}

// Board is the accuracy over the positions of one board. Its Name is that of the game's rules.
type Board struct {
	Summary
	Rules game.Rules `json:"-"`

	Bands    []Summary `json:"bands"`            // by plies, as in Report
	Sevenths []int     `json:"-"`                // for each band its number, from 1: band i is the i-th seventh of the cells
	Stones   []Summary `json:"stones,omitempty"` // by number of stones, with Meter.ByStones

	// Heuristic is the number of positions that a heuristic answered, perhaps in place of the requested network. Searches do not report it.
	Heuristic int `json:"heuristic,omitempty"`

	// Solved is set by callers that know the number of omitted positions; see AddSolved.
	Solved []Solved `json:"solved,omitempty"`
}

// Report has a Summary of each kind of position, of each board, of each band of plies that has positions, and of all positions. Kinds and
// boards are in order of first appearance.
type Report struct {
	Kinds  []Summary `json:"kinds,omitempty"`
	Boards []Board   `json:"boards"`
	Bands  []Summary `json:"bands"`
	All    Summary   `json:"all"`
}

// CompareRules orders games for tables: by the number in a row, then games with gravity first, then by cells and columns.
func CompareRules(a, b game.Rules) int {
	free := func(r game.Rules) int {
		if r.Gravity {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.InARow, b.InARow), cmp.Compare(free(a), free(b)), cmp.Compare(a.Cells(), b.Cells()), cmp.Compare(a.Columns, b.Columns))
}

// DropValues removes the measurements of values from the report of an evaluator that has no values.
func (r *Report) DropValues() {
	r.All.dropValues()
	parts := [][]Summary{r.Kinds, r.Bands}
	for i := range r.Boards {
		r.Boards[i].dropValues()
		parts = append(parts, r.Boards[i].Bands, r.Boards[i].Stones)
	}
	for _, part := range parts {
		for i := range part {
			part[i].dropValues()
		}
	}
}

func (s *Summary) dropValues() { s.ValueSign, s.DecisiveSign, s.Brier = Mean{}, Mean{}, Mean{} }

// rows is the number of positions evaluated at once.
const rows = 256

// Measure evaluates all positions and compares the answers with the exact scores. Bands are sevenths of the game: 6 plies each on 7x6.
func Measure(ctx context.Context, e *eval.Evaluator, positions []Position, progress func(done int)) (Report, error) {
	m := Meter{Evaluator: e}
	if err := m.Add(ctx, positions, progress); err != nil {
		return Report{}, err
	}
	return m.Report(), nil
}

// Meter is Measure for positions that arrive in parts. It does not store them.
type Meter struct {
	Evaluator *eval.Evaluator
	ByStones  bool                    // also report each board's positions by number of stones
	Each      func(Position, Outcome) // if not nil, is called for each position

	all    sums
	kinds  parts
	boards []*boardSums // in order of first appearance
	bands  [bands]sums
	batch  eval.Batch
}

// bands is 7, plus one for a short last band.
const bands = 8

type boardSums struct {
	board     *game.Board
	all       sums
	bands     [bands]sums
	stones    []sums
	heuristic int
}

// Add evaluates positions. After an error the report is not valid.
func (m *Meter) Add(ctx context.Context, positions []Position, progress func(done int)) error {
	batch := &m.batch
	for from := 0; from < len(positions); {
		// All positions of a batch have the same board.
		board := positions[from].State.Board
		to := from + 1
		for to < len(positions) && to-from < rows && positions[to].State.Board.Rules() == board.Rules() {
			to++
		}
		batch.Reset(board, to-from)
		for i := range batch.Pos {
			batch.Pos[i] = positions[from+i].State.Position
		}
		if err := m.Evaluator.Evaluate(ctx, batch); err != nil {
			return err
		}
		of := m.of(board)
		for i, p := range positions[from:to] {
			o := compare(p, batch.WDLRow(i), batch.PolicyRow(i))
			m.add(of, p, o)
			if m.Each != nil {
				m.Each(p, o)
			}
			if batch.Source[i].Heuristic() {
				of.heuristic++
			}
		}
		from = to
		if progress != nil {
			progress(from)
		}
	}
	return nil
}

func (m *Meter) of(b *game.Board) *boardSums {
	for _, of := range m.boards {
		if of.board.Rules() == b.Rules() {
			return of
		}
	}
	of := &boardSums{board: b, stones: make([]sums, b.Cells()+1)}
	m.boards = append(m.boards, of)
	return of
}

func (m *Meter) add(of *boardSums, p Position, o Outcome) {
	m.all.add(o)
	of.all.add(o)
	if p.Kind != "" {
		m.kinds.add(p.Kind, o)
	}
	plies := p.State.Plies()
	m.bands[plies/band(of.board)].add(o)
	of.bands[plies/band(of.board)].add(o)
	of.stones[plies].add(o)
}

// Report is the accuracy over the positions so far.
func (m *Meter) Report() Report {
	r := Report{All: m.all.summary("all"), Kinds: m.kinds.summaries()}
	width := 0 // plies of a band, if all boards have the same; else 0
	if len(m.boards) == 1 {
		width = band(m.boards[0].board)
	}
	r.Bands, _ = bandSummaries(&m.bands, width)
	for _, of := range m.boards {
		b := Board{Rules: of.board.Rules(), Summary: of.all.summary(of.board.Rules().String()), Heuristic: of.heuristic}
		b.Bands, b.Sevenths = bandSummaries(&of.bands, band(of.board))
		for n := range of.stones {
			if m.ByStones && of.stones[n].n > 0 {
				b.Stones = append(b.Stones, of.stones[n].summary(fmt.Sprintf("stones %d", n)))
			}
		}
		r.Boards = append(r.Boards, b)
	}
	return r
}

// bandSummaries returns the summaries of the bands that have positions, and the numbers of these bands, from 1. width is the number of
// plies in a band, or 0 if it differs by board.
func bandSummaries(all *[bands]sums, width int) (some []Summary, sevenths []int) {
	for i := range all {
		if all[i].n == 0 {
			continue
		}
		name := fmt.Sprintf("seventh %d", i+1) // of the cells
		if width > 0 {
			name = fmt.Sprintf("plies %d-%d", i*width, (i+1)*width-1)
		}
		some, sevenths = append(some, all[i].summary(name)), append(sevenths, i+1)
	}
	return some, sevenths
}

type parts struct {
	names []string // in order of first appearance
	sums  map[string]*sums
}

func (p *parts) add(name string, o Outcome) {
	if p.sums[name] == nil {
		if p.sums == nil {
			p.sums = map[string]*sums{}
		}
		p.names, p.sums[name] = append(p.names, name), &sums{}
	}
	p.sums[name].add(o)
}

func (p *parts) summaries() (all []Summary) {
	for _, name := range p.names {
		all = append(all, p.sums[name].summary(name))
	}
	return all
}

// band is the number of plies in a band.
func band(b *game.Board) int { return max(1, (b.Cells()+6)/7) }

// Outcome is the comparison of one answer with the exact scores. Equally likely moves share the
// credit, and so do equally likely results.
type Outcome struct {
	Perfect   float64 // share of the likeliest moves with the best exact score, 0 to 1
	Good      float64 // share of them that do not worsen win, draw or loss, 0 to 1
	Regret    float64 // mean of the best score minus theirs, 0 or more
	ValueSign float64 // share of the exact result in the likeliest of win, draw and loss, 0 to 1
	Brier     float64 // squared distance of WDL from the exact result, 0 to 2
	Critical  bool    // a legal move worsens the result

	sign      int  // of the exact score
	signFound bool // W - L has that sign
}

// compare compares an answer with p's scores.
func compare(p Position, wdl, policy []float32) Outcome {
	var o Outcome
	best := slices.Max(p.Scores) // solver.NoMove is lower than every score
	sign := cmp.Compare(best, 0)
	likeliest := float32(-1)
	for a, s := range p.Scores {
		if s != solver.NoMove {
			likeliest = max(likeliest, policy[a])
			o.Critical = o.Critical || cmp.Compare(s, 0) < sign
		}
	}
	tied := 0.0
	for a, s := range p.Scores {
		if s == solver.NoMove || policy[a] != likeliest {
			continue
		}
		tied++
		o.Regret += float64(best - s)
		if s == best {
			o.Perfect++
		}
		if cmp.Compare(s, 0) == sign {
			o.Good++
		}
	}
	o.Perfect, o.Good, o.Regret = o.Perfect/tied, o.Good/tied, o.Regret/tied

	o.sign, o.signFound = sign, cmp.Compare(wdl[0], wdl[2]) == sign
	result := 1 - sign // 0 win, 1 draw, 2 loss: the order of WDL
	most := max(wdl[0], wdl[1], wdl[2])
	tied = 0
	for k, x := range wdl {
		exact := 0.0
		if k == result {
			exact = 1
		}
		o.Brier += (float64(x) - exact) * (float64(x) - exact)
		if x == most {
			tied++
			o.ValueSign += exact
		}
	}
	o.ValueSign /= tied
	return o
}

// sums adds up outcomes.
type sums struct {
	n, critical                   int
	decisive, signsFound          int
	perfect, good, sign           float64
	regret, regret2               float64
	brier, brier2                 float64
	criticalPerfect, criticalGood float64
}

func (s *sums) add(o Outcome) {
	s.n++
	s.perfect += o.Perfect
	s.good += o.Good
	s.sign += o.ValueSign
	s.regret += o.Regret
	s.regret2 += o.Regret * o.Regret
	s.brier += o.Brier
	s.brier2 += o.Brier * o.Brier
	if o.sign != 0 {
		s.decisive++
		if o.signFound {
			s.signsFound++
		}
	}
	if o.Critical {
		s.critical++
		s.criticalPerfect += o.Perfect
		s.criticalGood += o.Good
	}
}

func (s *sums) summary(name string) Summary {
	return Summary{
		Name: name, Positions: s.n, Critical: s.critical,
		Perfect: rate(s.perfect, s.n), Good: rate(s.good, s.n), ValueSign: rate(s.sign, s.n),
		Regret: mean(s.regret, s.regret2, s.n), Brier: mean(s.brier, s.brier2, s.n),
		Decisive: s.decisive, DecisiveSign: rate(float64(s.signsFound), s.decisive),
		CriticalPerfect: rate(s.criticalPerfect, s.critical), CriticalGood: rate(s.criticalGood, s.critical),
	}
}

// z is the normal distribution's 97.5% quantile.
const z = 1.959963984540054

// rate is k/n with Wilson's interval; all zero if n is 0.
func rate(k float64, n int) Mean {
	if n == 0 {
		return Mean{}
	}
	N := float64(n)
	p := k / N
	centre := (p + z*z/(2*N)) / (1 + z*z/N)
	half := z / (1 + z*z/N) * math.Sqrt(p*(1-p)/N+z*z/(4*N*N))
	return Mean{p, max(0, centre-half), min(1, centre+half)}
}

// mean is sum/n with the interval from the sample's variance; all zero if n is 0.
func mean(sum, squares float64, n int) Mean {
	if n == 0 {
		return Mean{}
	}
	N := float64(n)
	m := sum / N
	half := 0.0
	if n > 1 {
		half = z * math.Sqrt(max(0, squares/N-m*m)/(N-1))
	}
	return Mean{m, m - half, m + half}
}
