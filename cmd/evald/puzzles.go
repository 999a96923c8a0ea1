package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/puzzle"
)

type puzzlesCmd struct {
	Out   string `short:"o" required:"" type:"path" placeholder:"FILE" help:"The file to write, compressed if its name ends in .gz. The same command resumes an interrupted or killed one."`
	Count int    `range:"1 to 1000000" default:"10000" help:"Number of puzzles; fewer if a small board has no more. 10,000 of 7x6 take some five minutes of one core."`
	Seed  uint64 `default:"1" help:"The same seed, count and rules give the same puzzles."`
	Rules string `default:"7x6x4" help:"The game: columns x rows x in-a-row."`
	JSON  bool   `help:"Write the summary as JSON."`
}

func (c *puzzlesCmd) Run(ctx context.Context, s streams) error {
	rules, err := game.ParseRules(c.Rules)
	if err != nil {
		return usage("--rules: %w", err)
	}
	board, err := game.NewBoard(rules)
	if err != nil {
		return usage("--rules: %w", err)
	}
	file, err := durable.Create(c.Out) // refuses a second writer before hours of work
	if err != nil {
		return err
	}
	defer file.Abort()
	settings := puzzleSettings{rules.String(), c.Count, c.Seed}
	before, journal, err := c.resume(board, settings)
	if err != nil {
		return err
	}
	defer journal.Close()
	progress := newProgress(s.err, 0)
	defer progress.clear()
	start, total, games := time.Now(), 0, len(before)
	for _, found := range before {
		total += len(found)
	}
	show := progress.counting("puzzles", total, c.Count)
	puzzles, err := puzzle.Make(ctx, board, puzzle.Options{Count: c.Count, Seed: c.Seed, Threads: runtime.GOMAXPROCS(0), Before: before, Played: func(found []puzzle.Puzzle, now int) error {
		total = now
		show(total)
		games++
		return journal.add(games-1, found)
	}})
	progress.clear()
	if err := orInterrupted(ctx, err, s.err, "; %d of %d puzzles are kept; the same command resumes it", total, c.Count); err != nil {
		return err
	}
	text := puzzle.Format(fmt.Sprintf("%d puzzles of %v: evald puzzles --rules %v --count %d --seed %d", len(puzzles), rules, rules, c.Count, c.Seed), puzzles)
	if strings.HasSuffix(c.Out, ".gz") {
		if text, err = puzzle.Compress(text); err != nil {
			return err
		}
	}
	if _, err := file.Write(text); err != nil {
		return err
	}
	if err := errors.Join(file.Commit(), journal.Close(), os.Remove(c.journal())); err != nil {
		return err
	}
	return c.report(s, puzzles, games, len(text), time.Since(start))
}

// puzzleSettings is the first line of the journal of an unfinished file.
type puzzleSettings struct {
	Rules string `json:"rules"`
	Count int    `json:"count"`
	Seed  uint64 `json:"seed"`
}

// puzzleLine is a line of the journal: the settings, or the puzzles found in one game.
type puzzleLine struct {
	Settings *puzzleSettings `json:"settings,omitempty"`
	Game     int             `json:"game"`
	Puzzles  []string        `json:"puzzles,omitempty"`
}

type puzzleJournal struct{ *durable.Journal }

func (c *puzzlesCmd) journal() string { return c.Out + ".partial" }

// add writes the puzzles of a game to the journal. Games without puzzles get no line.
func (j puzzleJournal) add(number int, found []puzzle.Puzzle) error {
	if len(found) == 0 {
		return nil
	}
	line := puzzleLine{Game: number}
	for i := range found {
		line.Puzzles = append(line.Puzzles, found[i].String())
	}
	return j.Add(line)
}

// Close closes the journal; a second call does nothing.
func (j puzzleJournal) Close() error {
	if err := j.Journal.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// resume reads the journal, or begins one. before has the puzzles of each game in the journal, by the game's number.
func (c *puzzlesCmd) resume(board *game.Board, settings puzzleSettings) (before [][]puzzle.Puzzle, j puzzleJournal, err error) {
	lines, err := durable.ReadJournal[puzzleLine](c.journal(), "and its puzzles are made again")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, j, err
	}
	if len(lines) == 0 {
		lines = []puzzleLine{{Settings: &settings}}
	}
	if lines[0].Settings == nil || *lines[0].Settings != settings {
		return nil, j, fmt.Errorf("%s is of another file: remove it, or name another one with -o", c.journal())
	}
	for _, l := range lines[1:] {
		if l.Game < len(before) {
			return nil, j, fmt.Errorf("%s: game %d is there twice: remove the file", c.journal(), l.Game)
		}
		for len(before) <= l.Game {
			before = append(before, nil)
		}
		for _, text := range l.Puzzles {
			p, err := puzzle.Parse(text)
			if err != nil || p.Board.Rules() != board.Rules() {
				return nil, j, fmt.Errorf("%s: game %d: %q is no puzzle of %v: remove the file", c.journal(), l.Game, text, board.Rules())
			}
			before[l.Game] = append(before[l.Game], p)
		}
	}
	j.Journal, err = durable.BeginJournal(c.journal(), lines)
	return before, j, err
}

func (c *puzzlesCmd) report(s streams, puzzles []puzzle.Puzzle, games, bytes int, took time.Duration) error {
	themes, ratings := map[puzzle.Theme]int{}, map[int]int{}
	for _, p := range puzzles {
		themes[p.Theme]++
		ratings[p.Rating/100*100]++
	}
	if c.JSON {
		return writeJSON(s.out, struct {
			File    string               `json:"file"`
			Puzzles int                  `json:"puzzles"`
			Games   int                  `json:"games"`
			Bytes   int                  `json:"bytes"`
			Seconds float64              `json:"seconds"`
			Themes  map[puzzle.Theme]int `json:"themes"`
			Ratings map[int]int          `json:"ratings"` // number of puzzles by rating, in steps of 100
		}{c.Out, len(puzzles), games, bytes, took.Seconds(), themes, ratings})
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %d puzzles of %d games, %d bytes, in %v\n", c.Out, len(puzzles), games, bytes, took.Round(time.Millisecond))
	for _, t := range puzzle.Themes() {
		fmt.Fprintf(&text, "%-14s %d\n", t, themes[t])
	}
	for rating := puzzle.Least; rating <= puzzle.Most; rating += 100 {
		fmt.Fprintf(&text, "%-14d %d\n", rating, ratings[rating])
	}
	_, err := s.out.Write([]byte(text.String()))
	return err
}
