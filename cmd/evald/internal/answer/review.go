package answer

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/evald/evald/cmd/evald/internal/pasted"
	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/cmd/evald/internal/review"
	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/mcts"
)

// opinionVisits is the number of visits with which search searches each position whose result is not proved.
const opinionVisits = 100

// The answer to a review. Side 0 moved first, side 1 second. Cells are numbered row by row from the top left. Results are 1 if side 0 wins,
// 0 for a draw and -1 if side 1 wins.
type (
	Reviewed struct {
		Position  string               `json:"position"` // rules and moves
		Ordered   bool                 `json:"ordered"`  // whether the order of the moves was given; a board alone has none
		Rows      int                  `json:"rows"`
		Columns   int                  `json:"columns"`
		Gravity   bool                 `json:"gravity"`
		Rules     string               `json:"rules"`
		Names     []string             `json:"names"` // of the moves, by action
		Moves     []ReviewedMove       `json:"moves"`
		Positions []ReviewedPosition   `json:"positions"` // before each move and after the last one
		Accuracy  [2][]review.Accuracy `json:"accuracy"`  // by side and phase
		Separator string               `json:"separator"` // between moves in text
		Over      bool                 `json:"over"`      // the game has ended
		Winning   []int                `json:"winning"`   // cells
		Further   *Further             `json:"further"`   // continues the review in another request; null if all is proved
	}
	// Further is what a review has found, for the next one of the same game.
	Further struct {
		Scores [][2]int `json:"scores"` // bounds of each position's exact score, for the side to move
		Limit  uint64   `json:"limit"`  // nodes of one search in the last pass that was completed
	}
	ReviewedMove struct {
		Move     string        `json:"move"`
		Cell     int           `json:"cell"`
		Mark     review.Kind   `json:"mark"`
		By       int           `json:"by"`      // number of moves by which a win becomes slower or a loss faster
		AtLeast  bool          `json:"atLeast"` // by is a lower bound
		Critical bool          `json:"critical"`
		Phase    review.Phase  `json:"phase"`
		Threats  ThreatsBySide `json:"threats"` // after the move
	}
	ReviewedPosition struct {
		Least int      `json:"least"` // bounds of the result, equal if it is proved
		Most  int      `json:"most"`
		In    int      `json:"in"`    // number of the winner's own moves to its win if that is proved, else 0
		Value *float64 `json:"value"` // the evaluator's value for side 0, -1..1; null if the result is proved
	}
	ThreatsBySide [2][]int // cells in which a stone of each side would complete a line
)

// reviewRequest asks for a review.
type reviewRequest struct {
	Game    string   `json:"game"`    // in any form that package pasted reads
	Further *Further `json:"further"` // of an answer, which this one continues for Limits.Time; null: a first review
}

// mostLimit is the maximum number of nodes of a search of an earlier review.
const mostLimit = 1 << 40

// earlier returns what an earlier review has found about a game of n moves.
func (q *reviewRequest) earlier(b *game.Board, n int) (from review.Earlier, err error) {
	if q.Further == nil {
		return from, nil
	}
	from.Limit = q.Further.Limit
	if len(q.Further.Scores) != n+1 || from.Limit > mostLimit {
		return from, bad("further", "further has %d bounds and the limit %d, and a game of %d moves needs %d and at most %d", len(q.Further.Scores), from.Limit, n, n+1, uint64(mostLimit))
	}
	for i, s := range q.Further.Scores {
		if s[0] > s[1] || s[0] < -b.Cells() || s[1] > b.Cells() {
			return from, bad("further", "further has the bounds %v of position %d, which must be -%d to %d, the lower first", s, i, b.Cells(), b.Cells())
		}
		from.Scores = append(from.Scores, review.Bounds{Low: s[0], High: s[1]})
	}
	return from, nil
}

func (a *Answerer) review(ctx context.Context, q *reviewRequest) (any, error) {
	read, err := pasted.Read(q.Game)
	if err != nil {
		return nil, bad("game", "%v", err)
	}
	b, moves := read.Board, read.Moves
	from, err := q.earlier(b, len(moves))
	if err != nil {
		return nil, err
	}
	limit := a.config.Limits.Review
	if q.Further != nil {
		limit = a.config.Limits.Time
	}
	asked := ctx
	ctx, reviewer, end, err := a.beginReview(ctx, b, limit)
	if err != nil {
		return nil, err
	}
	defer end()
	values, err := a.sight(ctx, b, moves)
	if err != nil {
		return nil, why(ctx, err)
	}
	solving, stop := context.WithTimeout(ctx, limit*2/3) // the rest is for search
	defer stop()
	g := reviewer.Continue(solving, moves, from)
	if err := asked.Err(); err != nil {
		return nil, why(asked, err)
	}
	a.search(ctx, b, g, values)
	described := describeReview(b, moves, g, values)
	described.Ordered = read.Ordered
	return described, nil
}

// beginReview is begin with a reviewer of games, whose memory is that of the place.
func (a *Answerer) beginReview(ctx context.Context, b *game.Board, d time.Duration) (timed context.Context, r *review.Reviewer, end func(), err error) {
	if timed, end, err = a.begin(ctx, d); err != nil {
		return nil, nil, nil, err
	}
	if r, err = a.reviewer(b, review.Options{Threads: min(2, runtime.GOMAXPROCS(0))}); err != nil {
		end()
	}
	return timed, r, end, err
}

func (a *Answerer) reviewer(b *game.Board, o review.Options) (*review.Reviewer, error) {
	o.TableMiB = solverTable
	if ships := a.config.Agents.Ships; ships != nil {
		o.Book = ships(b.Rules())
	}
	return review.New(b, o)
}

// sight returns the evaluator's value of each position of a game, without a search, for the side to move.
func (a *Answerer) sight(ctx context.Context, b *game.Board, moves []int) ([]float64, error) {
	batch := eval.NewBatch(b, len(moves)+1)
	for i, action := range moves {
		batch.Pos[i+1] = b.Play(batch.Pos[i], action)
	}
	if err := a.config.Evaluator.Evaluate(ctx, batch); err != nil {
		return nil, err
	}
	values := make([]float64, len(batch.Pos))
	for i := range values {
		values[i] = float64(batch.Value(i))
	}
	return values, nil
}

// search searches all positions whose results are not proved and replaces their values. If the time is too short for all of them, the
// values stay.
func (a *Answerer) search(ctx context.Context, b *game.Board, g *review.Review, values []float64) {
	var open []int
	for i, s := range g.Scores {
		if s.Result() == game.Ongoing {
			open = append(open, i)
		}
	}
	if len(open) == 0 {
		return
	}
	batch := eval.NewBatch(b, len(open))
	for k, i := range open {
		batch.Pos[k] = g.Positions[i]
	}
	c := ask.Search{Visits: opinionVisits}.Config(a.config.Evaluator.Backend())
	limits := mcts.Limits{Visits: opinionVisits, Batch: mostOpinions}
	if mcts.SearchBatch(ctx, a.config.Evaluator, batch, c, limits, new(mcts.Forest), nil) == nil {
		for k, i := range open {
			values[i] = float64(batch.Value(k))
		}
	}
}

// mostOpinions is the batch size of these searches, in leaves.
const mostOpinions = 64

// forFirst converts a result for the side to move to one for the side that moved first.
func forFirst(x, plies int) int {
	if plies%2 == 1 {
		return -x
	}
	return x
}

// Finite replaces NaN and infinity by 0, because JSON cannot express them.
func Finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

func sign(x int) int { return min(max(x, -1), 1) }

func describeReview(b *game.Board, moves []int, g *review.Review, values []float64) Reviewed {
	rules := b.Rules()
	last := g.Positions[len(moves)]
	a := Reviewed{
		Position: Canonical(b, moves), Rules: rules.String(), Rows: b.Rows(), Columns: b.Columns(), Gravity: rules.Gravity,
		Names: names(b), Moves: []ReviewedMove{}, Over: b.Result(last) != game.Ongoing,
	}
	if len(play.Name(b, b.Actions()-1)) > 1 {
		a.Separator = "."
	}
	for side, phases := range g.Accuracy(b.Cells()) {
		a.Accuracy[side] = phases[:]
	}
	for i, action := range moves {
		m := g.Marks[i]
		a.Moves = append(a.Moves, ReviewedMove{
			play.Name(b, action), b.Flat(b.Cell(g.Positions[i], action).First()), m.Kind, m.By, m.AtLeast,
			g.Critical[i] == review.Yes, review.PhaseOf(i, b.Cells()), flatThreats(b, g.Positions[i+1]),
		})
	}
	for i, s := range g.Scores {
		least, most := sign(s.Low), sign(s.High)
		if i%2 == 1 {
			least, most = -most, -least
		}
		p := ReviewedPosition{Least: least, Most: most}
		if least != most {
			value := values[i]
			if i%2 == 1 {
				value = -value
			}
			value = min(max(Finite(value), float64(least)), float64(most))
			p.Value = &value
		}
		if least == most && s.Exact() {
			p.In = movesToWin(b, i, s.Low)
		}
		a.Positions = append(a.Positions, p)
	}
	a.Winning = flatCells(b, completed(b, last))
	if slices.ContainsFunc(g.Marks, func(m review.Mark) bool { return m.Kind == review.NotProved }) {
		a.Further = &Further{Limit: g.Limit}
		for _, s := range g.Scores {
			a.Further.Scores = append(a.Further.Scores, [2]int{s.Low, s.High})
		}
	}
	return a
}

// movesToWin returns the number of the winner's own moves to its win, from the number of stones and the exact score. It is 0 for a draw and
// if the game is over.
func movesToWin(b *game.Board, plies, score int) int {
	switch left := b.Cells() - plies; {
	case score > 0:
		return (left+1)/2 - score + 1
	case score < 0:
		return left/2 + score + 1
	}
	return 0
}

// completed returns the cells of all complete lines of the side that moved last.
func completed(b *game.Board, p game.Position) (cells game.Bits) {
	for _, line := range b.Lines() {
		if line.AndNot(p.Other()).IsZero() {
			cells = cells.Or(line)
		}
	}
	return cells
}

// flatCells returns the numbers of a set's cells, row by row from the top left.
func flatCells(b *game.Board, set game.Bits) []int {
	cells := []int{}
	for ; !set.IsZero(); set = set.WithoutFirst() {
		cells = append(cells, b.Flat(set.First()))
	}
	return cells
}

func flatThreats(b *game.Board, p game.Position) (cells ThreatsBySide) {
	for side, set := range review.Threats(b, p) {
		cells[side] = flatCells(b, set)
	}
	return cells
}

// The answer that explains a mistake.
type (
	Explained struct {
		Move    int           `json:"move"`    // number, from 0
		Best    []string      `json:"best"`    // moves
		Instead ExplainedLine `json:"instead"` // best play with a best move
		After   ExplainedLine `json:"after"`   // best play after the move that was made
	}
	ExplainedLine struct {
		Moves   []LineMove `json:"moves"`
		Proved  bool       `json:"proved"`  // whether Result is proved
		Result  int        `json:"result"`  // as above
		How     review.How `json:"how"`     // how the line ends
		Side    int        `json:"side"`    // winner
		At      int        `json:"at"`      // number of moves of the line after which it is decided
		Cells   []int      `json:"cells"`   // cells in which the winner then threatens to complete a line
		Last    int        `json:"last"`    // cell in which the winner completes a line, or -1
		Winning []int      `json:"winning"` // cells of the completed line
	}
	LineMove struct {
		Move    string        `json:"move"`
		Cell    int           `json:"cell"`
		Threats ThreatsBySide `json:"threats"` // after the move
	}
)

// String is the line as text: "4 4 3 and X wins (zugzwang)". X moved first.
func (l ExplainedLine) String() string {
	text := ""
	for _, m := range l.Moves {
		text += m.Move + " "
	}
	if !l.Proved {
		return text + "..., not proved"
	}
	if l.How == review.Drawn {
		return text + "and a draw"
	}
	return fmt.Sprintf("%sand %c wins (%s)", text, "XO"[l.Side], l.How)
}

// whyRequest asks why a move of a game is a mistake.
type whyRequest struct {
	Position string `json:"position"` // the game: rules and moves
	Move     *int   `json:"move"`     // number, from 0; missing: the last one
}

func (a *Answerer) why(ctx context.Context, q *whyRequest) (any, error) {
	b, moves, err := ParsePosition(q.Position)
	if err != nil {
		return nil, err
	}
	number := len(moves) - 1
	if q.Move != nil {
		number = *q.Move
	}
	if number < 0 || number >= len(moves) {
		return nil, bad("move", "move is %d, must be 0 to %d, a move of the game by its number from 0", number, len(moves)-1)
	}
	asked := ctx
	ctx, reviewer, end, err := a.beginReview(ctx, b, a.config.Limits.Review)
	if err != nil {
		return nil, err
	}
	defer end()
	found := reviewer.Why(ctx, moves, number)
	if err := asked.Err(); err != nil {
		return nil, why(asked, err)
	}
	before := b.PlayMoves(moves[:number])
	e := Explained{Move: number, Best: []string{}, Instead: describeLine(b, before, found.Instead), After: describeLine(b, b.Play(before, moves[number]), found.After)}
	for _, action := range found.Best {
		e.Best = append(e.Best, play.Name(b, action))
	}
	return e, nil
}

func describeLine(b *game.Board, p game.Position, l review.Line) ExplainedLine {
	e := ExplainedLine{
		Moves: []LineMove{}, Proved: l.Result != game.Ongoing, Result: forFirst(int(l.Result.Value()), p.Plies()),
		How: l.Ends.How, Side: l.Ends.Side, At: l.Ends.At, Cells: flatCells(b, l.Ends.Cells), Last: -1,
	}
	if l.Ends.Last >= 0 {
		e.Last = b.Flat(l.Ends.Last)
	}
	for _, action := range l.Moves {
		cell := b.Flat(b.Cell(p, action).First())
		p = b.Play(p, action)
		e.Moves = append(e.Moves, LineMove{play.Name(b, action), cell, flatThreats(b, p)})
	}
	e.Winning = flatCells(b, completed(b, p))
	return e
}
