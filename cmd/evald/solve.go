package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/evald/evald/cmd/evald/internal/stream"
	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/jobs"
	"github.com/evald/evald/engine/score"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/engine/solver/book"
)

type solveCmd struct {
	lineParts
	anyPosition
	exactBook
	File     string `arg:"" optional:"" help:"Positions, one a line, as for evald eval. Default, or -: standard input."`
	Scores   bool   `without:"build-book" help:"Also compute the exact score of each move."`
	TableMiB int    `range:"0 to 1048576" name:"table-mib" default:"0" help:"Memory of all threads' transposition tables in MiB. 0 is 16 per table for boards of up to 42 cells, where a table in the processor's cache is fastest, and 256 for larger ones."`
	Method   string `without:"build-book" enum:"windows,mtdf" default:"windows" help:"How windows of scores are chosen: windows halves the range of scores from both ends, mtdf (Plaat et al., 1996) moves from the last answer. Scores are the same, nodes are not."`
	Format   string `without:"build-book" enum:"jsonl,text,table" default:"jsonl" help:"Output: ${enum}. A table is for people. text, which evald score reads, is the position and its score, or the score of each move, -1000 for one that cannot be played."`

	BuildBook string `type:"path" placeholder:"FILE" help:"Instead, solve all positions of the first plies and write them as a book. The same command resumes an interrupted build, and several at once share it."`
	Plies     int    `range:"0 to 127" needs:"build-book" default:"6" help:"Maximum number of stones of the book's positions."`
	Results   bool   `needs:"build-book" help:"Store only win, draw or loss in the book: it is built several times faster and is a quarter as large. Probes and searches use the one of 10 plies that ships."`
	Rules     string `needs:"build-book" default:"7x6x4" help:"The game of the book to build: columns x rows x in-a-row."`

	PackBook string `type:"path" needs:"book" without:"build-book,scores,format,table-mib,any-position" placeholder:"FILE" help:"Instead, compress the scores of the last ply of --book, which must be a file, and check each. The program embeds the result for 12 plies of 7x6x4."`

	threads int // all work on one position, or each on a position of its own
}

func (c *solveCmd) Validate() error {
	if c.BuildBook != "" && (c.File != "" || c.Out != "") {
		return errors.New("--build-book names the file to write, and reads none: leave the positions and -o out")
	}
	if c.PackBook != "" && (c.File != "" || c.Out != "" || c.Book == "none") {
		return errors.New("--pack-book names the file to write, and reads only the file of --book: leave the positions, -o and --book none out")
	}
	return fitsMemory("table-mib", c.TableMiB, 1<<20)
}

func (c *solveCmd) Run(ctx context.Context, s streams) error {
	c.threads = runtime.GOMAXPROCS(0)
	progress := newProgress(s.err, 0)
	defer progress.clear()
	if c.BuildBook != "" {
		return c.build(ctx, s, progress)
	}
	if c.PackBook != "" {
		return c.pack(s)
	}
	books, err := c.books()
	if err != nil {
		return err
	}
	r := &solveRun{solveCmd: c, books: books, progress: progress, workers: make([]*solver.Solver, c.threads)}
	return c.lineParts.answer(ctx, s, "solve", nil, c.File, c.Format, func(in io.Reader, out io.Writer) (tally, error) {
		if r.out = out; r.Format == "table" {
			r.out = r.columns().Writer(out)
		}
		if progress.shown() {
			total, err := countLines(ctx, in)
			if err != nil && ctx.Err() == nil {
				return r.tally, err
			}
			if total > 0 {
				r.count = progress.counting("solve", 0, total)
			}
		}
		err := jobs.Stream[*solved]{
			Items:   func(ctx context.Context) iter.Seq2[*solved, error] { return r.read(stream.NewReader(ctx, in)) },
			Work:    r.answer,
			Workers: c.threads,
			Window:  waiting * c.threads,
			Write:   r.write,
		}.Run(ctx)
		progress.clear()
		return r.tally, err
	})
}

// waiting is the maximum number of lines per thread that are read together.
const waiting = 16

type solveRun struct {
	*solveCmd
	books    func(game.Rules) solver.Book
	out      io.Writer
	progress *progress
	count    func(done int) // shows how many lines are done; nil if the total is unknown

	// A solver is kept while the game stays the same, because its table speeds up the game's next positions.
	together *solver.Solver   // all threads on one position
	workers  []*solver.Solver // one position each
	tally
}

// read reads the lines. If several lines wait, one thread solves each. If a single line waits, all threads solve it together, after the
// lines before it, and the next line is read when it is done.
func (r *solveRun) read(in *stream.Reader) iter.Seq2[*solved, error] {
	return func(yield func(*solved, error) bool) {
		var busy sync.WaitGroup
		var lines []stream.Line
		for more := true; more; {
			var err error
			if lines, more, err = in.Next(lines[:0], waiting*r.threads); len(lines) == 1 {
				busy.Wait()
			}
			for _, l := range lines {
				busy.Add(1)
				if !yield(&solved{line: l, done: busy.Done, alone: len(lines) == 1}, nil) {
					return
				}
			}
			if len(lines) == 1 {
				busy.Wait()
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// solved is the answer to one line, as JSON.
type solved struct {
	Line     int     `json:"line"`
	Position string  `json:"position"`
	Score    int     `json:"score"`
	Best     *int    `json:"best"`             // column, from 1; null if the game is over
	Scores   []*int  `json:"scores,omitempty"` // null for a move that cannot be played
	Nodes    uint64  `json:"nodes"`
	Seconds  float64 `json:"seconds"`
	Book     bool    `json:"book"` // a book gave the score

	line  stream.Line
	state game.State
	alone bool   // no other line is being solved
	done  func() // must be called when the line has been solved
	err   error
}

// answer solves one line. It returns an error only after an interrupt.
func (r *solveRun) answer(ctx context.Context, worker int, a *solved) error {
	defer a.done()
	a.Line, a.Position = a.line.Number, a.line.Text
	parser := game.Parser{AnyPosition: r.AnyPosition}
	if a.state, a.err = a.line.Parse(&parser); a.err != nil {
		return nil
	}
	state := a.state
	keep, threads := &r.workers[worker], 1
	if a.alone {
		keep, threads = &r.together, r.threads
	}
	s, err := r.solver(keep, state.Board, threads)
	if err != nil {
		a.err = fmt.Errorf("line %d: %w", a.Line, err)
		return nil
	}
	start := time.Now()
	var result solver.Result
	if r.Scores {
		var scores []int
		scores, result, err = s.Scores(ctx, state.Position)
		a.Scores = make([]*int, len(scores))
		for i := range scores {
			if scores[i] != solver.NoMove {
				a.Scores[i] = &scores[i]
			}
		}
	} else {
		result, err = s.Solve(ctx, state.Position)
	}
	if err != nil && ctx.Err() != nil {
		return err
	}
	if err != nil {
		a.err = fmt.Errorf("line %d: not solved: %w", a.Line, err)
		return nil
	}
	a.Score, a.Nodes, a.Seconds, a.Book = result.Score, result.Nodes, time.Since(start).Seconds(), result.Booked
	if result.Best >= 0 {
		best := result.Best + 1
		a.Best = &best
	}
	return nil
}

func (r *solveRun) solver(keep **solver.Solver, board *game.Board, threads int) (*solver.Solver, error) {
	if last := *keep; last != nil && last.Board().Rules() == board.Rules() {
		return last, nil
	}
	o := solver.Options{TableMiB: r.share(threads), Threads: threads, MTD: r.Method == "mtdf", Book: r.books(board.Rules())}
	if threads == r.threads {
		o.Progress = func(p solver.Progress) {
			r.progress.text(fmt.Sprintf("score %+d to %+d, asking for more than %+d; %.1f M nodes, %.1f M/s, table %.0f%% full",
				p.Lower, p.Upper, p.Window, float64(p.Nodes)/1e6, float64(p.Nodes)/1e6/p.Elapsed.Seconds(), 100*p.Fill))
		}
	}
	*keep = nil // its memory can be freed before the next solver allocates
	s, err := solver.New(board, o)
	*keep = s
	return s, err
}

// share returns the table size in MiB of a solver with the given number of threads; 0 means the solver's default.
func (c *solveCmd) share(threads int) int {
	if c.TableMiB == 0 {
		return 0
	}
	return max(1, c.TableMiB*threads/c.threads)
}

func (r *solveRun) write(a *solved, done bool) error {
	if !done {
		r.givenUp++
		return nil
	}
	r.answered++
	if a.err != nil {
		r.refused++
	}
	var text []byte
	switch {
	case r.Format == "text":
		text = a.text()
	case r.Format == "table":
		text = a.row(r.columns())
	case a.err != nil:
		text = marshalLine(refused{a.Line, a.err.Error()})
	default:
		text = marshalLine(a)
	}
	if r.count != nil {
		r.count(r.answered)
	} else {
		r.progress.text(fmt.Sprintf("%d positions", r.answered))
	}
	_, err := r.out.Write(text)
	return err
}

func marshalLine(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // numbers and strings always marshal
	}
	return append(text, '\n')
}

func (a *solved) text() []byte {
	if a.err != nil {
		return fmt.Appendf(nil, "# %s\n", strings.ReplaceAll(a.err.Error(), "\n", " "))
	}
	if a.Scores == nil {
		return fmt.Appendf(nil, "%s %d\n", a.Position, a.Score)
	}
	scores := make([]int, len(a.Scores))
	for i, s := range a.Scores {
		scores[i] = solver.NoMove
		if s != nil {
			scores[i] = *s
		}
	}
	return score.AppendLine(nil, a.Position, scores)
}

// columns returns the columns of the table. The last ones are the scores of all moves, or nodes, time and book.
func (c *solveCmd) columns() stream.Columns {
	all := stream.Columns{{Name: "line", Width: 5}, {Name: "position", Width: -14}, {Name: "to move", Width: 7}, {Name: "score", Width: 5}, {Name: "best", Width: 4}}
	if c.Scores {
		return append(all, stream.Column{Name: "score of each move", Width: -35})
	}
	return append(all, stream.Column{Name: "nodes", Width: 12}, stream.Column{Name: "seconds", Width: 8}, stream.Column{Name: "book", Width: -4})
}

func (a *solved) row(columns stream.Columns) []byte {
	line := strconv.Itoa(a.Line)
	if a.err != nil {
		return columns.Note(nil, line, a.err.Error())
	}
	best, book := "-", "no"
	if a.Best != nil {
		best = game.FormatMoves(a.state.Board.Rules(), []int{*a.Best - 1})
	}
	if a.Book {
		book = "yes"
	}
	cells := []string{line, a.Position, strconv.Itoa(a.state.Mark), strconv.Itoa(a.Score), best}
	if a.Scores == nil {
		return columns.Append(nil, append(cells, strconv.FormatUint(a.Nodes, 10), fmt.Sprintf("%.3f", a.Seconds), book)...)
	}
	scores := ""
	for _, s := range a.Scores {
		text := "."
		if s != nil {
			text = strconv.Itoa(*s)
		}
		scores += fmt.Sprintf("%3s ", text)
	}
	return columns.Append(nil, append(cells, strings.TrimRight(scores, " "))...)
}

// build solves the first plies of a game and writes them as a book.
func (c *solveCmd) build(ctx context.Context, s streams, progress *progress) error {
	board, err := boardOf(c.Rules)
	if err != nil {
		return err
	}
	workers := make([]book.Solve, c.threads)
	for i := range workers {
		one, err := solver.New(board, solver.Options{TableMiB: c.share(1), Threads: 1})
		if err != nil {
			return err
		}
		workers[i] = func(ctx context.Context, p game.Position) (int, error) {
			find := one.Score
			if c.Results {
				find = one.WDL
			}
			r, err := find(ctx, p)
			return r.Score, err
		}
	}
	start := time.Now()
	var show func(done int)
	b, err := book.Build(ctx, c.BuildBook, board, c.Plies, c.Results, workers, func(done, total int) {
		if show == nil { // the first call
			show = progress.counting("book", done, total)
		}
		show(done)
	})
	if err := orInterrupted(ctx, err, s.err, "; the same command resumes it"); err != nil {
		return err
	}
	progress.clear()
	_, err = fmt.Fprintf(s.out, "%s: %d positions of up to %d plies of %v, in %v\n",
		c.BuildBook, b.Positions(), b.Plies(), b.Rules(), time.Since(start).Round(time.Millisecond))
	return err
}

// pack compresses a book's last ply.
func (c *solveCmd) pack(s streams) error {
	b, err := book.Load(c.Book)
	if err != nil {
		return err
	}
	file, err := b.Pack()
	if err != nil {
		return err
	}
	if err := durable.WriteFile(c.PackBook, file); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "%s: the scores of all positions with %d stones of %v, in %d bytes\n", c.PackBook, b.Plies(), b.Rules(), len(file))
	return err
}
