package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/arena"
	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/open"
)

// tuned is the result of --tune, as --json writes it.
type tuned struct {
	Rules     string          `json:"rules"`
	Agent     string          `json:"agent"`
	Seed      uint64          `json:"seed"`
	Games     int             `json:"games"` // played to find the constants
	Constants []tunedConstant `json:"constants"`
	Against   *arena.Meeting  `json:"against,omitempty"` // result against the usual constants, in separate games; nil if the found constants are the usual ones
	Written   string          `json:"written,omitempty"` // the model or the file that now has them
	Why       string          `json:"why,omitempty"`     // why they were not written
}

type tunedConstant struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Usual float64 `json:"usual"`
}

// tune finds the best constants of the search for a network, and writes them into the network's file if they beat the usual ones.
func (c *matchCmd) tune(ctx context.Context, s streams) error {
	board, err := boardOf(c.Rules)
	if err != nil {
		return err
	}
	if len(c.Agents) != 1 {
		return usage("--tune takes one agent, such as mcts:model=mine.safetensors,visits=200, not %d", len(c.Agents))
	}
	spec, err := play.ParseAgent(c.Agents[0])
	switch {
	case err != nil:
		return usageError{err}
	case spec.Name != "mcts" || spec.Model == "" || spec.Explore != 0:
		return usage("--tune: agent %s: must be mcts with model=, a network, and without explore=", short.Quote(c.Agents[0]))
	case c.Games < arena.MinTuning:
		return usage("--tune: --games %d: want %d or more, better 600", c.Games, arena.MinTuning)
	}
	m, network, err := open.Any(spec.Model)
	if err != nil {
		return err
	}
	shared, err := c.share(board, s.err)
	if err != nil {
		return err
	}
	e, err := shared.Models(spec.Model)
	if err != nil {
		return err
	}
	usual := mcts.DefaultConfig(mcts.PUCT).For(e.Backend())
	all := []arena.Constant{
		{Name: "cpuct", Low: min(0.3, usual.C), High: max(8, usual.C), Usual: usual.C, Log: true},
		{Name: "fpu", Low: min(-0.3, usual.FPU), High: max(1.2, usual.FPU), Usual: usual.FPU},
	}
	t := &arena.Tuning{Board: board, Games: c.Games, Seed: c.Seed, Concurrency: runtime.GOMAXPROCS(0)}
	for _, constant := range all {
		if slices.Contains(c.Tune, constant.Name) {
			t.Constants = append(t.Constants, constant)
		}
	}
	search := func(values []float64) eval.Search { // constants that are not tuned keep their usual values
		all := eval.Search{CPUCT: usual.C, FPU: usual.FPU}
		for i, constant := range t.Constants {
			switch constant.Name {
			case "cpuct":
				all.CPUCT = values[i]
			case "fpu":
				all.FPU = values[i]
			}
		}
		return all
	}
	t.New = func(values []float64) arena.Player {
		own := shared
		tuned := eval.New(eval.Tuned{Backend: e.Backend(), Search: search(values)}, eval.Options{})
		own.Models = func(string) (*eval.Evaluator, error) { return tuned, nil }
		name := fmt.Sprintf("%s with %s", spec, t.Text(values))
		return arena.Player{Name: name, Limit: spec.Time, New: func(seed uint64) (agent.Agent, error) {
			one := spec
			one.Seed += seed
			return agent.New(one, own)
		}}
	}
	fmt.Fprintf(s.err, "evald match: %v, %d games to tune %s of %s, seed %d; %d at once\n", board.Rules(), c.Games, strings.Join(c.Tune, " and "), spec, c.Seed, t.Concurrency)
	progress := newProgress(s.err, 0)
	best, err := t.Run(ctx, func(games int, values []float64) {
		if progress.due() {
			progress.text(fmt.Sprintf("%d of %d games; best so far %s", games, c.Games, t.Text(values)))
		}
	})
	progress.clear()
	if err != nil {
		if ctx.Err() != nil {
			fmt.Fprintln(s.err, "evald: interrupted: nothing was written")
			return errInterrupted
		}
		return err
	}
	r := tuned{Rules: board.Rules().String(), Agent: spec.String(), Seed: c.Seed, Games: best.Games}
	if len(best.Match.Meetings) == 1 {
		r.Against = &best.Match.Meetings[0]
	}
	for i, constant := range t.Constants {
		r.Constants = append(r.Constants, tunedConstant{constant.Name, best.Values[i], best.Low[i], best.High[i], constant.Usual})
	}
	if r.Written, r.Why, err = keepSearch(m, network, r.Against, search(best.Values)); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, r)
	}
	return r.write(s.out)
}

// keepSearch writes constants of the search into a network's file if they are better than the usual ones with a confidence of 97.5%.
// Otherwise it returns why it did not.
func keepSearch(m open.Stored, n open.Network, against *arena.Meeting, constants eval.Search) (written, why string, err error) {
	switch {
	case against == nil:
		return "", "the usual ones are the best", nil
	case against.TooFew || against.Elo-against.EloError <= 0:
		return "", "it is not clear that they are better than the usual ones: more --games may show it", nil
	case m.Version > 0 && m.Path == "":
		return "", fmt.Sprintf("%s is part of the program: evald model export %[1]s -o F.safetensors makes a file that can have them", m.Name), nil
	}
	content, err := n.WithSearch(constants)
	if err != nil {
		return "", "", err
	}
	if m.Version == 0 {
		return m.Path, "", durable.WriteFile(m.Path, content)
	}
	store, err := models.UserStore()
	if err != nil {
		return "", "", err
	}
	stored, _, err := store.Add(m.Entry, content)
	return stored.Ref(), "", err
}

func (r *tuned) write(w io.Writer) error {
	for _, c := range r.Constants {
		fmt.Fprintf(w, "%s %g (90%%: %g to %g), usual %g\n", c.Name, c.Value, c.Low, c.High, c.Usual)
	}
	if a := r.Against; a != nil {
		fmt.Fprintf(w, "found by %d games; in %d others %+.0f ±%.0f Elo against the usual ones (%d won, %d drawn, %d lost)\n", r.Games, a.Games, a.Elo, a.EloError, a.Wins, a.Draws, a.Losses)
	}
	last := "written into " + r.Written
	if r.Written == "" {
		last = "not written: " + r.Why
	}
	_, err := fmt.Fprintln(w, last)
	return err
}
