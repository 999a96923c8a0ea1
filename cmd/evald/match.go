package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/cmd/evald/internal/plot"
	"github.com/evald/evald/cmd/evald/internal/stream"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/arena"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/mcts/opening"
	"github.com/evald/evald/engine/short"
)

type matchCmd struct {
	Agents       []string  `arg:"" name:"agent" help:"At least 2 players, or 1 with --tune: a level, or an agent as NAME or NAME:KEY=VALUE,KEY=VALUE. The names are above."`
	Games        int       `default:"100" help:"Games of each pair; an even number, because each opening is played twice, with colours exchanged."`
	Rules        string    `default:"7x6x4" help:"The game: columns x rows x in-a-row."`
	Openings     string    `without:"opening-plies" type:"existingfile" placeholder:"FILE" help:"Begin with these positions, one a line as moves (44554, or of other games 5x4x4:33), instead of random ones."`
	OpeningPlies *int      `range:"0 to 128" placeholder:"N" help:"Length of the random openings, which are distinct and without an early win. Default: a tenth of the cells, 4 on 7x6."`
	Seed         uint64    `help:"Random seed of the openings and of the agents; in each game the agents have other seeds."`
	Out          string    `short:"o" type:"path" placeholder:"F.parquet" help:"Write the games to this file, one row each. The same command, also with more --games, resumes an interrupted or killed match."`
	SPRT         []float64 `range:"-10000 to 10000" name:"sprt" placeholder:"ELO0,ELO1" help:"For two agents: stop as soon as a sequential test with errors of 5% decides whether the first is ELO0 or ELO1 better than the second; --games is the maximum."`
	Tune         []string  `without:"sprt,out,openings,opening-plies,grow-book,plot" placeholder:"NAME[=LOW:HIGH],.." help:"Find the best values of one or two numbers of one agent, such as cpuct and fpu of mcts or power and width of uct-bitsquares, with --games games (600 are a good start) against the agent as it is; the range is a quarter to four times the usual value unless it is given. cpuct (exploration) and fpu (the reduction of the value of moves without visits) are written into the file of the network of an mcts agent, where searches read them. Of all others the agent is printed."`
	GrowBook     string    `type:"path" placeholder:"F.book" help:"Add the results of the searches to this opening book, a new one if the file does not exist. Agents with book=F.book use it."`
	Plot         string    `type:"path" placeholder:"F.svg" help:"Draw the scores of all pairs."`
	JSON         bool      `help:"Write JSON instead of tables."`
	processors

	grown *growingBook // the book of --grow-book
}

func (*matchCmd) Help() string {
	return "Levels, from the weakest on:\n" + asList(play.DescribeLevels()) + "\nAgents, with their defaults:\n" + asList(agent.Describe()) +
		"\nmodel is a shipped network's name, a safetensors file, or a heuristic (" + strings.Join(heuristic.Names(), ", ") + ")." +
		fmt.Sprintf("\n\nleaves is the number of leaves of its tree that a search evaluates at once: 1 if visits or sims are the limit, %d if time is the only one. "+
			"More are faster, and change the moves. With visits a search begins anew at each move; with a time it keeps its tree.", agent.TimedLeaves)
}

// asList turns lines into items of a list, which the help wraps.
func asList(lines string) (list string) {
	for line := range strings.Lines(lines) {
		name, about, _ := strings.Cut(line, " ")
		list += fmt.Sprintf("  - %s: %s", name, strings.TrimLeft(about, " "))
	}
	return list
}

func (c *matchCmd) Run(ctx context.Context, s streams) error {
	if len(c.Tune) > 0 {
		return c.tune(ctx, s)
	}
	defer func() {
		if c.grown != nil {
			c.grown.release()
		}
	}()
	m, source, err := c.match(ctx, s.err)
	if err != nil {
		return err
	}
	run := &matchRun{matchCmd: c, match: m, progress: newProgress(s.err, 0)}
	if c.Out != "" {
		record, err := arena.OpenRecord(c.Out, m, source)
		if err != nil {
			return err
		}
		run.record, run.games = record, record.Games()
	}
	c.describe(s.err, m, source, len(run.games))
	run.start, run.before = time.Now(), len(run.games)
	if run.verdict() == arena.Undecided {
		err = m.Run(ctx, run.games, run.add)
	}
	run.progress.clear()
	interrupted := err != nil && ctx.Err() != nil
	if err != nil && !interrupted && !errors.Is(err, errDecided) {
		return errors.Join(err, run.close())
	}
	if err := errors.Join(run.close(), run.show(s.out)); err != nil {
		return err
	}
	if interrupted {
		next := "the same command resumes it"
		if c.Out == "" {
			next = "with -o FILE they would have been kept"
		}
		fmt.Fprintf(s.err, "evald: interrupted after %d of %d games; %s\n", len(run.games), m.Games(), next)
		return errInterrupted
	}
	return nil
}

// mostGames is the maximum of --games.
const mostGames = 10_000_000

// match returns the match that the flags describe, and a description of the source of its openings.
func (c *matchCmd) match(ctx context.Context, notes io.Writer) (m *arena.Match, source string, err error) {
	switch {
	case len(c.Agents) < 2:
		return nil, "", usage("a match has 2 agents or more, not only %s", c.Agents[0])
	case c.Games < 2 || c.Games%2 == 1:
		return nil, "", usage("--games %d: want an even number, as each opening is played twice: %d", c.Games, max(2, c.Games+1))
	case len(c.SPRT) > 0 && (len(c.SPRT) != 2 || len(c.Agents) != 2):
		return nil, "", usage("--sprt %v with %d agents: want ELO0,ELO1 and two agents", c.SPRT, len(c.Agents))
	case c.Games > mostGames/(len(c.Agents)*(len(c.Agents)-1)/2):
		return nil, "", usage("--games %d: with %d agents that is more than %d games", c.Games, len(c.Agents), mostGames)
	}
	if c.SPRT != nil {
		if err := c.test().Validate(); err != nil {
			return nil, "", usage("--sprt: %w", err)
		}
	}
	m = &arena.Match{Seed: c.Seed, Concurrency: runtime.GOMAXPROCS(0)}
	if m.Board, err = boardOf(c.Rules); err != nil {
		return nil, "", err
	}
	specs := make([]agent.Spec, len(c.Agents))
	shared, err := c.share(m.Board, notes)
	if err != nil {
		return nil, "", err
	}
	for i, text := range c.Agents {
		if specs[i], _, err = agentOf(text, m.Board, shared); err != nil {
			return nil, "", err
		}
	}
	m.Players = arena.Players(specs, shared)
	source, err = c.openings(ctx, m, notes)
	return m, source, err
}

// agentOf reads an agent, with the network that evald chooses, and makes it, so that errors appear before a match begins.
func agentOf(text string, b *game.Board, shared agent.Shared) (agent.Spec, agent.Agent, error) {
	spec, err := play.ParseAgent(text)
	if err != nil {
		return spec, nil, usageError{err}
	}
	spec = shared.Choose(spec)
	a, err := agent.New(spec, shared)
	if err == nil {
		err = agent.Supports(a, b)
	}
	if err != nil {
		err = fmt.Errorf("agent %s: %w", short.Quote(text), err)
	}
	return spec, a, err
}

// errDecided ends a match after its sequential test has reached a verdict.
var errDecided = errors.New("the test is decided")

// test returns the sequential test of --sprt.
func (c *matchCmd) test() arena.SPRT {
	const wrong = 0.05
	return arena.SPRT{Elo0: c.SPRT[0], Elo1: c.SPRT[1], Alpha: wrong, Beta: wrong}
}

// openings sets the match's openings and returns a description of their source.
func (c *matchCmd) openings(ctx context.Context, m *arena.Match, notes io.Writer) (source string, err error) {
	want, distinct, more := c.Games/2, 0, ""
	if c.Openings != "" {
		all, err := c.readOpenings(ctx, m.Board)
		if err != nil {
			return "", fmt.Errorf("--openings %s: %w", c.Openings, err)
		}
		distinct = len(all)
		for i := range want {
			m.Openings = append(m.Openings, all[i%distinct])
		}
		source = "a file's"
	} else {
		plies := arena.DefaultPlies(m.Board)
		if c.OpeningPlies != nil {
			plies = *c.OpeningPlies
		}
		if m.Openings, distinct, err = arena.RandomOpenings(m.Board, plies, want, c.Seed); err != nil {
			return "", usage("--opening-plies: %w", err)
		}
		source, more = fmt.Sprintf("random of %d plies", plies), "; a larger --opening-plies gives more"
	}
	if distinct < want {
		fmt.Fprintf(notes, "evald: only %d different openings for %d pairs of games: they repeat, and so do the games of agents without randomness%s\n", distinct, want, more)
	}
	return source, nil
}

func (c *matchCmd) readOpenings(ctx context.Context, b *game.Board) (all [][]int, err error) {
	in, err := openFile(c.Openings)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	for l, err := range stream.NewReader(ctx, in).Lines() {
		if err != nil {
			return nil, err
		}
		moves, err := arena.ParseOpening(b, l.Text)
		if err = errors.Join(l.Err, err); err != nil {
			return nil, fmt.Errorf("line %d: %w", l.Number, err)
		}
		all = append(all, moves)
	}
	if len(all) == 0 {
		return nil, errors.New("no positions")
	}
	return all, nil
}

func (c *matchCmd) describe(w io.Writer, m *arena.Match, source string, have int) {
	kept := "games are not kept (-o FILE keeps them)"
	if c.Out != "" {
		kept = "games in " + c.Out
		if have > 0 {
			kept += fmt.Sprintf(", %d there", have)
		}
	}
	fmt.Fprintf(w, "evald match: %v, %d games of %d players, %d a pair; openings %s, seed %d; %d at once; %s\n",
		m.Board.Rules(), m.Games(), len(m.Players), c.Games, source, c.Seed, m.Concurrency, kept)
}

type matchRun struct {
	*matchCmd
	match    *arena.Match
	record   *arena.Record // the file of games; nil without --out
	games    []arena.Game
	before   int // number of games in the record at the start
	start    time.Time
	progress *progress
}

// close completes the record and the book, if there are any.
func (r *matchRun) close() error {
	var err error
	if r.grown != nil {
		err = r.grown.save()
	}
	if r.record != nil {
		err = errors.Join(err, r.record.Close())
	}
	return err
}

func (r *matchRun) add(g arena.Game) error {
	if r.record != nil {
		if err := r.record.Add(g); err != nil {
			return err
		}
		r.games = r.record.Games()
	} else {
		r.games = append(r.games, g)
	}
	if r.grown != nil && r.grown.due() {
		if err := r.grown.save(); err != nil {
			return err
		}
	}
	if r.verdict() != arena.Undecided {
		return errDecided
	}
	if !r.progress.due() {
		return nil
	}
	played, all := len(r.games)-r.before, r.match.Games()
	left := time.Duration(float64(time.Since(r.start)) / float64(played) * float64(all-len(r.games)))
	text := fmt.Sprintf("%d of %d games, %v left", len(r.games), all, left.Round(time.Second))
	if r.SPRT != nil {
		lower, upper := r.test().Bounds()
		text += fmt.Sprintf("; LLR %.2f (%.2f, %.2f)", r.ratio(), lower, upper)
	}
	names := r.typed()
	for _, p := range arena.NewTable(r.match.Names(), r.games).Standings {
		elo, interval := p.Rating()
		text += fmt.Sprintf("; %s %s %s", names[p.Player], elo, interval)
	}
	r.progress.text(text)
	return nil
}

// ratio returns the log likelihood ratio of --sprt.
func (r *matchRun) ratio() float64 {
	return r.test().LogRatio(arena.CountPairs(r.games, r.match.Players[0].Name))
}

// verdict returns the verdict of --sprt; undecided without it.
func (r *matchRun) verdict() arena.Verdict {
	if r.SPRT == nil {
		return arena.Undecided
	}
	return r.test().Verdict(r.ratio())
}

// typed returns the text by which the user named each player: a level, or an agent without the
// network that evald chose. Repeated texts are numbered.
func (r *matchRun) typed() map[string]string {
	typed, number := map[string]string{}, map[string]int{}
	for i, p := range r.match.Players {
		text := r.Agents[i]
		if number[text]++; number[text] > 1 {
			text = fmt.Sprintf("%s#%d", text, number[text])
		}
		typed[p.Name] = text
	}
	return typed
}

func (r *matchRun) show(w io.Writer) error {
	report := matchReport{Rules: r.match.Board.Rules().String(), Seed: r.Seed, Table: arena.NewTable(r.match.Names(), r.games)}
	if r.SPRT != nil {
		t := r.test()
		lower, upper := t.Bounds()
		report.SPRT = &sprtReport{t.Elo0, t.Elo1, r.ratio(), lower, upper, r.verdict()}
	}
	if err := report.write(w, r.typed(), r.JSON); err != nil || r.Plot == "" {
		return err
	}
	title := fmt.Sprintf("%s, %d games", report.Rules, report.Games)
	return writeWhole(r.Plot, func(w io.Writer) error { return plot.CrossTable(w, title, report.Table) })
}

// share returns the networks and books that the agents share. All games use one batcher per network, so that their leaves fill its batches.
func (c *matchCmd) share(b *game.Board, notes io.Writer) (agent.Shared, error) {
	shared := play.Batched(shareAgents(c.processors, notes), nil)
	books := play.Once(func(path string) (*opening.Book, error) {
		if path == c.GrowBook {
			return c.grown.Book, nil
		}
		book, err := opening.Load(path)
		if err == nil {
			err = isFor(path, book, b)
		}
		return book, err
	})
	shared.Books = func(path string) (*opening.Book, error) {
		path, err := filepath.Abs(path) // different paths of a file give the same book
		if err != nil {
			return nil, err
		}
		return books(path)
	}
	if c.GrowBook == "" {
		return shared, nil
	}
	var err error
	if c.grown, err = growBook(c.GrowBook, b); err != nil {
		return shared, fmt.Errorf("--grow-book: %w", err)
	}
	shared.Searched = c.grown.Add
	return shared, nil
}
