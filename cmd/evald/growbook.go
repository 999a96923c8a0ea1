package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/jobs"
	"github.com/evald/evald/engine/mcts/opening"
	"github.com/evald/evald/engine/short"
)

type growBookCmd struct {
	File  string        `arg:"" type:"path" help:"The book. A new one is begun if the file does not exist; the same command, or another one, extends an existing one."`
	Agent string        `default:"uct-bitsquares:sims=1000" help:"What plays both sides: an agent that searches a tree (mcts, gumbel, uct, uct-NAME), as in evald help match, with visits or sims."`
	Time  time.Duration `range:"1s to 8760h" default:"10m" help:"How long to play."`
	From  string        `default:"-" placeholder:"MOVES" help:"Begin all games after these moves, such as 44554."`
	Rules string        `default:"7x6x4" help:"The game: columns x rows x in-a-row."`
	Seed  uint64        `help:"Random seed of the first moves of the games."`
	processors
}

func (*growBookCmd) Help() string {
	return "An agent plays against itself, on all processors, and the results of its searches are added to an opening book. A game begins " +
		"with random moves, from none up to a tenth of the board's cells. Then it follows the best moves of the book, and after the end of " +
		"the book those of the agent, until half of the cells are full. The values of its last positions are backed up to its first ones, " +
		"so the next game may choose another move. The file is saved every few seconds (a twentieth of the time at most), so a kill loses " +
		"little. An agent with book=FILE plays the moves of the book without a search, and evald match --grow-book adds the searches of a match."
}

func (c *growBookCmd) Run(ctx context.Context, s streams) error {
	board, err := boardOf(c.Rules)
	if err != nil {
		return err
	}
	start, _, err := board.ParseMoves(c.From)
	if err == nil && board.Result(start) != game.Ongoing {
		err = errors.New("the game is over")
	}
	if err != nil {
		return usage("--from %s: %w", short.To(c.From, 100), err)
	}
	switch spec, err := play.ParseAgent(c.Agent); {
	case err != nil:
		return usageError{err}
	case !spec.Tree() || spec.Book != "" || spec.Visits == 0 || spec.Time != 0:
		return usage("--agent %s: want an agent that searches a tree (mcts, gumbel, uct, uct-NAME), with visits or sims, and without time and book", short.Quote(c.Agent))
	}
	grown, err := growBook(c.File, board)
	if err != nil {
		return err
	}
	defer grown.release()
	shared := play.Batched(shareAgents(c.processors, s.err), nil)
	shared.Searched = grown.Add
	spec, _, err := agentOf(c.Agent, board, shared)
	if err != nil {
		return err
	}
	g := &bookGames{growingBook: grown, board: board, start: start, spec: spec, shared: shared, progress: newProgress(s.err, 0), until: time.Now().Add(c.Time)}
	before, began := grown.Positions(), time.Now()
	err = g.play(ctx, rand.NewPCG(c.Seed, uint64(before)))
	g.progress.clear()
	if err := errors.Join(err, grown.save()); err != nil {
		return err
	}
	after := grown.Positions()
	fmt.Fprintf(s.out, "%s: %d positions of %v, before %d, after %d games in %v\n", c.File, after, board.Rules(), before, g.games, time.Since(began).Round(time.Second))
	if ctx.Err() != nil {
		fmt.Fprintln(s.err, "evald: interrupted; the same command extends the book further")
		return errInterrupted
	}
	return nil
}

// bookGames are games of an agent against itself, whose searches extend a book.
type bookGames struct {
	*growingBook
	board    *game.Board
	start    game.Position
	spec     agent.Spec
	shared   agent.Shared
	progress *progress
	until    time.Time

	mu    sync.Mutex // guards what follows, and saving
	games int
}

// play plays until the time is over or ctx ends. It returns other errors. seeds makes games differ, also from those of an earlier run.
func (g *bookGames) play(ctx context.Context, seeds *rand.PCG) error {
	timed, cancel := context.WithDeadline(ctx, g.until)
	defer cancel()
	workers := runtime.GOMAXPROCS(0)
	randoms := make([]*rand.Rand, workers)
	for i := range randoms {
		randoms[i] = rand.New(rand.NewPCG(seeds.Uint64(), seeds.Uint64()))
	}
	err := jobs.Each(timed, workers, workers, func(ctx context.Context, _, i int) error {
		a, err := agent.New(g.spec, g.shared)
		for err == nil {
			err = g.one(ctx, a, randoms[i])
		}
		return err
	})
	if timed.Err() != nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		return nil
	}
	return err
}

// one plays a game: some random moves, then those of the book, and after its end those of the agent, until the agent has made a search and
// half of the board is full, or until the result is proved.
func (g *bookGames) one(ctx context.Context, a agent.Agent, r *rand.Rand) error {
	p := g.start
	for range r.IntN(g.board.Cells()/10 + 1) {
		legal := g.board.Legal(p)
		next := g.board.PlayCell(p, legal.Nth(r.IntN(legal.OnesCount())))
		if g.board.Result(next) != game.Ongoing {
			break
		}
		p = next
	}
	var line []game.Position
	for searched := false; g.board.Result(p) == game.Ongoing && !(searched && 2*p.Plies() >= g.board.Cells()); {
		if ctx.Err() != nil { // moves of the book do not look
			return ctx.Err()
		}
		if value, _ := g.Value(p); math.Abs(value) == 1 {
			break
		}
		line = append(line, p)
		action, ok := g.Next(p)
		if !ok {
			var err error
			if action, err = a.Move(ctx, g.board, p); err != nil {
				return err
			}
			searched = true
		}
		p = g.board.Play(p, action)
		if err := g.between(); err != nil {
			return err
		}
	}
	g.BackUp(line)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.games++
	return nil
}

// between is called after each move: it saves the book if that is due, and shows the progress.
func (g *bookGames) between() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.progress.due() {
		g.progress.text(fmt.Sprintf("%d games, %d positions, %v left", g.games, g.Positions(), time.Until(g.until).Round(time.Second)))
	}
	if !g.due() {
		return nil
	}
	return g.save()
}

// growingBook is an opening book in a file, which searches extend. The file is locked.
type growingBook struct {
	*opening.Book
	path  string
	file  *durable.File // the next version
	saved time.Time
	took  time.Duration // the last save
}

// growBook opens a book to extend it, or begins one if the file does not exist.
func growBook(path string, b *game.Board) (g *growingBook, err error) {
	g = &growingBook{path: path, saved: time.Now()}
	if g.file, err = durable.Create(path); err != nil {
		return nil, fmt.Errorf("opening book: %w", err)
	}
	switch _, err = os.Stat(path); {
	case err == nil:
		g.Book, err = opening.Load(path)
	case errors.Is(err, fs.ErrNotExist):
		g.Book, err = opening.New(b), nil
	}
	if err == nil {
		err = isFor(path, g.Book, b)
	}
	if err != nil {
		g.release()
		return nil, err
	}
	return g, nil
}

// isFor returns an error if a book is of another game.
func isFor(path string, book *opening.Book, b *game.Board) error {
	if book.Rules() != b.Rules() {
		return fmt.Errorf("opening book %s: is for %v, and this is %v", path, book.Rules(), b.Rules())
	}
	return nil
}

// due reports whether the book should be saved: after five seconds, and later for a large book, so that saving takes a twentieth of the
// time at most.
func (g *growingBook) due() bool { return time.Since(g.saved) > max(5*time.Second, 20*g.took) }

// save writes the file. Calls must not overlap.
func (g *growingBook) save() error {
	began := time.Now()
	g.BackUpAll()
	if err := g.Write(g.file); err != nil {
		return err
	}
	if err := g.file.Commit(); err != nil {
		return err
	}
	next, err := durable.Create(g.path)
	if err == nil {
		g.file = next
	}
	g.saved, g.took = time.Now(), time.Since(began)
	return err
}

// release ends the lock of the file.
func (g *growingBook) release() { g.file.Abort() }
