package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/evald/evald/cmd/evald/internal/analyze"
	"github.com/evald/evald/cmd/evald/internal/stream"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/jobs"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/nn/open"
)

// searching has the flags of commands that search.
type searching struct {
	Visits    int    `range:"1 to 67108864" default:"800" help:"Visits of each position's root."`
	Selection string `enum:"puct,uct,gumbel" default:"puct" help:"How visits choose among moves: ${enum}."`
	Batch     int    `range:"1 to 1048576" default:"256" help:"Leaves that are evaluated together, of all positions. It changes no answer."`
	Leaves    int    `range:"1 to 4096" default:"1" help:"Leaves of one position that are under way at once. More are faster where few positions wait, and change the answers."`
	Seed      uint64 `needs:"selection=uct|gumbel" help:"Of uct's and gumbel's random choices."`
}

func (f searching) config() mcts.Config {
	c := mcts.DefaultConfig()
	c.Visits, c.Seed = f.Visits, f.Seed
	switch f.Selection {
	case "uct":
		c.Selection = mcts.UCT
	case "gumbel":
		c.Selection = mcts.Gumbel
	}
	return c
}

// searchCmd is `evald search`.
type searchCmd struct {
	backend
	searching
	outFile
	File string `arg:"" optional:"" help:"Positions, one a line, as for evald eval. Standard input where it is missing or -."`
}

// Help says how many positions are searched at once.
func (*searchCmd) Help() string {
	return fmt.Sprintf(`Positions that wait are searched together, each in a tree of its own, so that their leaves fill batches: up to
two batches of positions, as far as their trees take no more than %d nodes in all, 32 bytes each. A visit takes a node
for each move, sometimes two: with --visits 100000 ten positions of 7x6 are searched at once. One position always is,
however long its search.

An answer is the same to the bit alone or beside any others, with any --batch and --threads. --leaves changes it: so many
leaves of a tree are chosen one after the other, each as if those before it had lost, and evaluated together, which
makes the search of a single position faster.`, analyze.MaxNodes)
}

// Run searches each line's position.
func (c *searchCmd) Run(ctx context.Context, s streams) error {
	e, err := c.choose(s.err)
	if err != nil {
		return err
	}
	defer e.Close()
	in, err := s.open(c.File, "positions")
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := c.create(s.out)
	if err != nil {
		return err
	}
	defer out.Abort()
	r := &searchRun{searchCmd: c, ctx: ctx, evaluator: e, out: bufio.NewWriter(out), since: time.Now(), progress: newProgress(s.err, 0)}
	defer r.progress.clear()
	if r.progress.shown() {
		if r.total, err = countLines(ctx, in); err != nil && ctx.Err() == nil {
			return err
		}
		r.progress.atOnce()
		r.show()
	}
	reader := stream.NewReader(ctx, in)
	var lines []stream.Line
	err = nil
	for more := true; more && err == nil; {
		lines, more, err = reader.Next(lines[:0], 2*c.Batch) // one batch is filled while the other is evaluated
		err = errors.Join(r.answer(lines), err)
	}
	r.progress.clear()
	if wasInterrupted(ctx, err) {
		return r.interrupted(s.err, c.unwritten())
	}
	if err != nil {
		return err
	}
	if err := out.Commit(); err != nil {
		return err
	}
	return r.end(s.err)
}

// searchRun is one run over lines.
type searchRun struct {
	*searchCmd
	ctx       context.Context // after it ends, no more positions are begun
	evaluator *open.Opened
	out       *bufio.Writer
	since     time.Time
	total     int          // lines of the input, 0 if unknown
	trees     []*mcts.Tree // of the last game, for reuse

	mu       sync.Mutex // guards all fields below
	progress *progress
	tally
	lines   []searchLine // the lines that were read together
	written int          // number of these lines
	busy    int          // positions under way
	visits  int          // visits of the positions under way
}

// searchLine is a line and its state.
type searchLine struct {
	stream.Line
	state   game.State
	begun   bool
	refused bool
	answer  []byte // nil until the line has one
}

// searched is the answer to one line, as JSON.
type searched struct {
	Line int `json:"line"`
	analyze.Answer
}

// answer answers lines that were read together. If ctx ends first, it returns its error; the answered lines are then the
// first ones.
func (r *searchRun) answer(lines []stream.Line) error {
	r.lines, r.written = r.lines[:0], 0
	if len(lines) > 0 && r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	var boards []*game.Board // in the order of their first lines
	byGame := map[game.Rules][]int{}
	var parser game.Parser
	for i, l := range lines {
		line := searchLine{Line: l}
		state, err := line.Parse(&parser)
		switch {
		case err != nil:
			line.refused, line.answer = true, marshalLine(refused{l.Number, err.Error()})
		case state.Board.Result(state.Position) != game.Ongoing:
			line.answer = r.describe(&line.Line, state, nil)
		default:
			rules := state.Board.Rules()
			if byGame[rules] == nil {
				boards = append(boards, state.Board)
			}
			byGame[rules] = append(byGame[rules], i)
		}
		line.state = state
		r.lines = append(r.lines, line)
	}
	err := r.write()
	for _, board := range boards {
		if err == nil {
			err = r.search(board, byGame[board.Rules()])
		}
	}
	for i := r.written; i < len(r.lines); i++ {
		if r.lines[i].begun {
			r.givenUp++
		}
	}
	return err
}

func (r *searchRun) describe(l *stream.Line, state game.State, t *mcts.Tree) []byte {
	return marshalLine(searched{l.Number, analyze.Describe(l.Text, r.evaluator.ModelOn(state.Board.Rules()), state, t)})
}

// write writes the answers up to the first line that has none yet.
func (r *searchRun) write() error {
	for ; r.written < len(r.lines) && r.lines[r.written].answer != nil; r.written++ {
		line := &r.lines[r.written]
		if _, err := r.out.Write(line.answer); err != nil {
			return err
		}
		r.answered++
		if line.refused {
			r.refused++
		}
	}
	r.show()
	return r.out.Flush()
}

// treesAtOnce returns how many trees of that many visits may be searched together.
func treesAtOnce(board *game.Board, visits int) int {
	return max(1, analyze.MaxNodes/mcts.NodesFor(board, visits))
}

// treesFor returns trees for that many positions of a board, or fewer if they would take too much memory.
func (r *searchRun) treesFor(board *game.Board, positions int) ([]*mcts.Tree, error) {
	c := r.config()
	c.MaxNodes = mcts.NodesFor(board, r.Visits)
	c.Reserve = min(c.MaxNodes, analyze.MaxNodes) / 2
	if len(r.trees) > 0 && r.trees[0].Board().Rules() != board.Rules() {
		r.trees = nil
	}
	n := min(positions, treesAtOnce(board, r.Visits))
	for len(r.trees) < n {
		t, err := mcts.New(board, c)
		if err != nil {
			return nil, err
		}
		r.trees = append(r.trees, t)
	}
	return r.trees[:n], nil
}

// search searches lines of one game; todo are their indices in r.lines. A tree that has finished a line takes the next one.
func (r *searchRun) search(board *game.Board, todo []int) error {
	trees, err := r.treesFor(board, len(todo))
	if err != nil {
		return err
	}
	finishing, cancel := jobs.Finishing(r.ctx)
	defer cancel()
	g := &gameSearch{searchRun: r, finishing: finishing, todo: todo, turns: map[*mcts.Tree]*turn{}}
	for _, t := range trees {
		g.turns[t] = &turn{}
	}
	err = mcts.Drive(finishing, r.evaluator.Evaluator, trees, min(r.Batch, r.Leaves*((len(trees)+1)/2)), r.Leaves, g.next)
	if g.failed != nil {
		return g.failed
	}
	if err == nil && len(g.todo) > 0 {
		err = r.ctx.Err()
	}
	return err
}

// gameSearch is the search of lines of one game.
type gameSearch struct {
	*searchRun
	finishing context.Context // ends soon after an interrupt
	todo      []int           // lines that have not been begun
	turns     map[*mcts.Tree]*turn
	failed    error // error of writing
}

// turn is the current work of a tree.
type turn struct {
	line   *searchLine // nil before the first
	visits int         // visits at the last look
}

// visitsPerLook is the number of visits of a tree between two looks at it.
const visitsPerLook = 64

// next returns a tree's next goal; see mcts.Drive.
func (g *gameSearch) next(t *mcts.Tree) (goal mcts.Goal) {
	at := g.turns[t]
	var answer []byte
	if at.line != nil && (t.Visits() >= g.Visits || t.Result() != game.Ongoing) {
		answer = g.describe(&at.line.Line, at.line.state, t)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case answer != nil:
		g.visits -= at.visits
		g.busy--
		at.line.answer, at.line = answer, nil
		if err := g.write(); err != nil {
			g.failed, g.todo = err, nil
		}
	case at.line != nil:
		g.visits += t.Visits() - at.visits
		at.visits = t.Visits()
		g.show()
	}
	switch {
	case g.failed != nil || g.finishing.Err() != nil:
		return goal
	case at.line == nil && (len(g.todo) == 0 || g.ctx.Err() != nil):
		return goal
	case at.line == nil:
		at.line, at.visits = &g.lines[g.todo[0]], 0
		at.line.begun = true
		g.todo = g.todo[1:]
		g.busy++
		t.Reset(at.line.state.Position)
		g.show()
	}
	return mcts.Goal{Visits: g.Visits, Look: at.visits + visitsPerLook}
}

// show shows how far the search has come, even while the first positions take long.
func (r *searchRun) show() {
	if r.progress.due() {
		r.progress.text(searchProgress{r.answered, r.total, r.busy, r.visits, r.Visits, time.Since(r.since)}.String())
	}
}

// searchProgress says how far a search has come.
type searchProgress struct {
	done, total int // positions; total is 0 if unknown
	busy        int // positions under way
	visits, of  int // visits of all positions under way, and the visits that one needs
	elapsed     time.Duration
}

func (p searchProgress) String() string {
	text := fmt.Sprintf("%d positions", p.done)
	if p.total > 0 {
		text = fmt.Sprintf("%d of %d positions", p.done, p.total)
	}
	work := float64(p.done) // positions, including parts of those under way
	if p.busy > 0 {
		part := float64(p.visits) / float64(p.of)
		work += part
		text += fmt.Sprintf(", %d under way (%.0f%%)", p.busy, 100*part/float64(p.busy))
	}
	if rate := work / p.elapsed.Seconds(); rate > 0 {
		text += fmt.Sprintf(", %.3g/s", rate)
		if p.total > 0 {
			left := time.Duration((float64(p.total) - work) / rate * float64(time.Second))
			text += fmt.Sprintf(", %v left", max(0, left.Round(time.Second)))
		}
	}
	return text
}

// refused is the answer to a line that is refused.
type refused struct {
	Line  int    `json:"line"`
	Error string `json:"error"`
}
