package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strconv"
	"sync"
	"time"

	"github.com/evald/evald/cmd/evald/internal/analyze"
	"github.com/evald/evald/cmd/evald/internal/searchtree"
	"github.com/evald/evald/cmd/evald/internal/stream"
	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/jobs"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/nn/open"
)

type searchCmd struct {
	backend
	ask.Search
	anyPosition
	lineParts
	File string `arg:"" optional:"" help:"Positions, one a line, as for evald eval. Default, or -: standard input."`
	treeFile
	Format string `enum:"jsonl,table" default:"jsonl" help:"Output: ${enum}. A table is for people, and shows the moves that the search expects."`
}

var searchColumns = analyze.Columns(stream.Column{Name: "line", Width: 5}, stream.Column{Name: "proved", Width: -6})

func (*searchCmd) Help() string {
	return fmt.Sprintf(`Positions that wait are searched together, each in a tree of its own, so that their leaves fill batches: up to two
batches of positions of each board, while their trees have at most %d nodes in all, 32 bytes each. A visit adds a node
for each move, sometimes two: with --visits 100000, ten positions of 7x6 are searched at once. A position is searched
alone if its tree is larger than that.

An answer is the same bit for bit, whatever is searched beside it, with any --batch and --threads. --leaves changes it:
this number of leaves of a tree is chosen one after the other, each as if the earlier ones had lost, and they are
evaluated together, which makes the search of a single position faster.`, mcts.NodesAtOnce)
}

func (c *searchCmd) Run(ctx context.Context, s streams) error {
	e, err := c.choose(s.err)
	if err != nil {
		return err
	}
	defer e.Close()
	finishing, cancel := jobs.Finishing(ctx)
	defer cancel()
	if err := c.treeFile.check(); err != nil {
		return err
	}
	r := &searchRun{searchCmd: c, evaluator: e, since: time.Now(), progress: newProgress(s.err, 0)}
	if r.scheduler, err = mcts.NewScheduler(ctx, finishing, e.Evaluator, c.Batch, c.Leaves, 0); err != nil {
		return err
	}
	err = c.answer(ctx, s, "search", e, c.File, c.Format, func(in io.Reader, out io.Writer) (tally, error) {
		if r.out = out; c.Format == "table" {
			r.out = searchColumns.Writer(out)
		}
		defer r.progress.clear()
		if r.progress.shown() {
			if r.total, err = countLines(ctx, in); err != nil && ctx.Err() == nil {
				return r.tally, err
			}
			r.progress.atOnce()
			r.show()
		}
		ahead := min(8*mcts.AtOnce(c.Batch), mostAhead)
		err = jobs.Stream[*searchLine]{
			Items:   func(ctx context.Context) iter.Seq2[*searchLine, error] { return r.read(stream.NewReader(ctx, in)) },
			Work:    func(_ context.Context, _ int, l *searchLine) error { return <-l.ended },
			Workers: ahead,
			Window:  ahead,
			Write:   r.write,
		}.Run(ctx)
		cancel() // after an error the remaining answers are not needed
		r.scheduler.Wait()
		return r.tally, err
	})
	if c.Tree == "" || err != nil {
		return err
	}
	return c.treeFile.write(r.tree)
}

// mostAhead is the maximum number of lines read after the first line without an answer. It is large enough for full batches of several
// boards.
const mostAhead = 1 << 15

type searchRun struct {
	*searchCmd
	scheduler *mcts.Scheduler
	evaluator *open.Opened
	out       io.Writer
	since     time.Time
	total     int // lines of the input, 0 if unknown

	mu       sync.Mutex // guards all fields below
	progress *progress
	tally
	busy   int              // positions in progress
	visits int              // visits so far of the positions in progress
	treed  int              // number of the line whose tree is kept; 0: none yet
	tree   *searchtree.Tree // the tree of line treed; nil until it is answered
}

type searchLine struct {
	stream.Line
	state   game.State
	refused bool
	begun   bool
	visits  int        // the part of searchRun.visits that this line contributed
	answer  []byte     // nil until the line is answered
	ended   chan error // receives the result of the search
}

// searched is the answer to one line, as JSON.
type searched struct {
	Line int `json:"line"`
	analyze.Answer
}

// read reads the lines and begins their searches, in their order.
func (r *searchRun) read(in *stream.Reader) iter.Seq2[*searchLine, error] {
	return func(yield func(*searchLine, error) bool) {
		parser := game.Parser{AnyPosition: r.AnyPosition}
		for l, err := range in.Lines() {
			line := &searchLine{Line: l, ended: make(chan error, 1)}
			if err == nil {
				err = r.begin(line, &parser)
			}
			if !yield(line, err) {
				return
			}
		}
	}
}

func (r *searchRun) describe(l *searchLine, t *mcts.Tree) []byte {
	a := analyze.Describe(l.Text, r.evaluator.ModelOn(l.state.Board.Rules()), l.state, t)
	if r.Format != "table" {
		return marshalLine(searched{l.Number, a})
	}
	proved := "-"
	if a.Proved != nil {
		proved = *a.Proved
	}
	return searchColumns.Append(nil, a.Cells(strconv.Itoa(l.Number), proved)...)
}

// refuse answers a line with an error.
func (r *searchRun) refuse(l *searchLine, err error) {
	if l.refused = true; r.Format == "table" {
		l.answer = searchColumns.Note(nil, strconv.Itoa(l.Number), err.Error())
		return
	}
	l.answer = marshalLine(refused{l.Number, err.Error()})
}

// begin starts the search of a line, or answers the line at once.
func (r *searchRun) begin(l *searchLine, parser *game.Parser) (err error) {
	if l.state, err = l.Parse(parser); err == nil {
		err = r.evaluator.Supports(l.state.Board)
	}
	if err != nil {
		r.refuse(l, err)
		l.ended <- nil
		return nil
	}
	if l.state.Board.Result(l.state.Position) != game.Ongoing {
		l.answer = r.describe(l, nil)
		l.ended <- nil
		return nil
	}
	if r.Tree != "" && r.treed > 0 {
		return fmt.Errorf("line %d: --tree is for one position, which is that of line %d", l.Number, r.treed)
	}
	r.treed = l.Number
	c := r.Config(r.evaluator.Backend())
	c.Reserve = min(mcts.NodesFor(l.state.Board, r.Visits), mcts.NodesAtOnce) / 2
	return r.scheduler.Add(&mcts.Job{
		Board: l.state.Board, Position: l.state.Position, Visits: r.Visits, Config: c,
		Next: func(_ *mcts.Job, t *mcts.Tree) mcts.Goal {
			r.see(l, t, false)
			return mcts.Goal{Visits: r.Visits, CheckAt: t.Visits() + visitsPerCheck}
		},
		Done: func(_ *mcts.Job, t *mcts.Tree, err error) {
			if err == nil {
				l.answer = r.describe(l, t)
				r.keep(l, t)
			}
			if t != nil {
				r.see(l, t, true)
			}
			l.ended <- err
		},
	})
}

// visitsPerCheck is the number of visits of a tree between two updates of the progress.
const visitsPerCheck = 64

// see updates the progress with the visits of a position in progress.
func (r *searchRun) see(l *searchLine, t *mcts.Tree, ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !l.begun {
		l.begun = true
		r.busy++
	}
	r.visits += t.Visits() - l.visits
	if l.visits = t.Visits(); ended {
		r.visits -= l.visits
		r.busy--
	}
	r.show()
}

func (r *searchRun) write(l *searchLine, done bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !done {
		if l.begun {
			r.givenUp++
		}
		return nil
	}
	r.answered++
	if l.refused {
		r.refused++
	}
	r.show()
	_, err := r.out.Write(l.answer)
	return err
}

// show shows the progress, also before the first answer. The caller holds mu, except at the start.
func (r *searchRun) show() {
	if r.progress.due() {
		r.progress.text(searchProgress{r.answered, r.total, r.busy, r.visits, r.Visits, time.Since(r.since)}.String())
	}
}

type searchProgress struct {
	done, total int // positions; total is 0 if unknown
	busy        int // positions in progress
	visits, of  int // visits so far of all positions in progress, and the visits that one position needs
	elapsed     time.Duration
}

func (p searchProgress) String() string {
	text := fmt.Sprintf("%d positions", p.done)
	if p.total > 0 {
		text = fmt.Sprintf("%d of %d positions", p.done, p.total)
	}
	work := float64(p.done) // in positions; a position in progress counts by its share of visits
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
