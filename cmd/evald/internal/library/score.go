package library

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/score"
)

// ScoreOptions are options of Score, as JSON.
type ScoreOptions struct {
	Sets   []ScoreSet      `json:"sets"`
	Visits []int           `json:"visits"` // of the searches; 0 is the policy without a search
	Raw    bool            `json:"raw"`    // the policy is the network's, without the rules
	Other  bool            `json:"other"`  // skip positions of other games in files; otherwise they are an error
	Search json.RawMessage `json:"search"` // of the searches: what ask.Python may set
}

// ScoreSet is a set of positions with exact scores: a file that evald score reads, or the caller's
// next rows.
type ScoreSet struct {
	Name string `json:"name"` // of its row in the report, if there are several sets
	File string `json:"file"`
	Rows int    `json:"rows"`
}

// ScoreReport is the accuracy of the policy or of a search.
type ScoreReport struct {
	Model string `json:"model"`
	score.Report
}

// scoredAtOnce is the number of positions that a search of Score searches at once.
const scoredAtOnce = 256

// ScoreRules returns the rules of the first position of a file that evald score reads.
func ScoreRules(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	r := score.NewReader(f, score.Place{})
	r.Unsolved = true
	p, err := r.Next()
	switch {
	case errors.Is(err, io.EOF):
		return "", fmt.Errorf("%s: no positions", file)
	case err != nil:
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return p.State.Board.Rules().String(), nil
}

// Score compares an evaluator or, if e is nil, the caller's function with exact scores, as evald
// score does. positions are those of the sets without a file, and scores [N,A] of their moves, as
// Solve writes them. Work.Result is a list with a ScoreReport for each number of Visits.
func Score(e *Evaluator, b *game.Board, positions []game.Position, options string, scores []int32) (work *Work, err error) {
	o := ScoreOptions{Search: json.RawMessage("{}")}
	if err := decode(options, &o); err != nil {
		return nil, fmt.Errorf("options of the score: %w", err)
	}
	how, err := ask.Decode(string(o.Search), ask.Python)
	if err != nil {
		return nil, fmt.Errorf("options of the search: %w", err)
	}
	if err := unfinished(b, positions); err != nil {
		return nil, err
	}
	all, err := scored(b, positions, scores, o)
	if err != nil {
		return nil, err
	}
	evaluator, function, done, err := asks(e, b, scoredAtOnce)
	if err != nil {
		return nil, err
	}
	name := "function"
	if e != nil {
		name = e.about.Model
	}
	subjects, err := how.Subjects(evaluator, name, o.Visits, o.Raw)
	if err != nil {
		done()
		return nil, err
	}
	return begin(function, len(all)*len(subjects), nil, func(ctx context.Context, w *Work) error {
		defer done()
		if err := solveSets(ctx, all); err != nil {
			return err
		}
		var reports []ScoreReport
		for i, s := range subjects {
			r, err := score.Measure(ctx, s.Evaluator, all, func(n int) { w.done.Store(int64(i*len(all) + n)) })
			if err != nil {
				return err
			}
			reports = append(reports, ScoreReport{s.Name, r})
		}
		return w.report(reports)
	}), nil
}

// scored returns the positions of all sets.
func scored(b *game.Board, positions []game.Position, scores []int32, o ScoreOptions) (all []score.Position, err error) {
	n := b.Actions()
	for _, set := range o.Sets {
		var some []score.Position
		if set.File != "" {
			if some, err = readScored(b, set.File, o.Other); err != nil {
				return nil, fmt.Errorf("%s: %w", set.File, err)
			}
		} else {
			rows := min(max(0, set.Rows), len(positions))
			for i, p := range positions[:rows] {
				row := make([]int, n)
				for a := range row {
					row[a] = int(scores[i*n+a])
				}
				scored := score.Position{State: game.State{Board: b, Position: p, Mark: p.Mover()}, Scores: row}
				if err := scored.Validate(); err != nil {
					return nil, fmt.Errorf("set %s: position %d: %w", set.Name, i, err)
				}
				some = append(some, scored)
			}
			positions, scores = positions[rows:], scores[rows*n:]
		}
		if len(some) == 0 {
			return nil, fmt.Errorf("set %s: no positions", set.Name)
		}
		for i := range some {
			if len(o.Sets) > 1 {
				some[i].Kind = set.Name
			}
		}
		all = append(all, some...)
	}
	return all, nil
}

// readScored reads the positions of a board from a file.
func readScored(b *game.Board, file string, other bool) (some []score.Position, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, errors.Unwrap(err) // the caller names the file
	}
	defer f.Close()
	r := score.NewReader(f, score.Place{})
	r.Unsolved = true
	for {
		p, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return some, nil
		case err != nil:
			return nil, err
		case p.State.Board.Rules() == b.Rules():
			some = append(some, p)
		case !other:
			return nil, fmt.Errorf("line %d is of %v, and others are of %v: name the rules of those that are to be measured", r.Place().Line, p.State.Board.Rules(), b.Rules())
		}
	}
}

// solveSets solves the moves of positions of which only the position's score is known.
func solveSets(ctx context.Context, all []score.Position) error {
	for from := 0; from < len(all); {
		to := from
		for to < len(all) && (all[to].Scores == nil) == (all[from].Scores == nil) {
			to++
		}
		if all[from].Scores == nil {
			if err := score.SolveMoves(ctx, all[from:to], runtime.GOMAXPROCS(0), func(int) {}); err != nil {
				return err
			}
		}
		from = to
	}
	return nil
}
