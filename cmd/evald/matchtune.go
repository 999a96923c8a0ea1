package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/arena"
	"github.com/evald/evald/engine/ask"
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
	Best      string          `json:"best"`              // the agent with the found constants
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

// tune finds the best values of an agent's parameters. Those that a network's file can have are written there if they beat the usual ones.
func (c *matchCmd) tune(ctx context.Context, s streams) error {
	board, err := boardOf(c.Rules)
	if err != nil {
		return err
	}
	if len(c.Agents) != 1 {
		return usage("--tune takes one agent, such as mcts:model=mine.safetensors,visits=200, not %d", len(c.Agents))
	}
	if c.Games < arena.MinTuning {
		return usage("--tune: --games %d: want %d or more, better 600", c.Games, arena.MinTuning)
	}
	shared, err := c.share(board, s.err)
	if err != nil {
		return err
	}
	spec, player, err := agentOf(c.Agents[0], board, shared)
	if err != nil {
		return err
	}
	numbers := agent.Numbers(spec, player)
	t := &arena.Tuning{Board: board, Games: c.Games, Seed: c.Seed, Concurrency: runtime.GOMAXPROCS(0)}
	var keys []string // of the constants
	for _, text := range c.Tune {
		constant, key, err := constantOf(text, spec, numbers)
		if err != nil {
			return usage("--tune: %w", err)
		}
		if slices.Contains(keys, key) {
			return usage("--tune: %s is named twice", constant.Name)
		}
		t.Constants, keys = append(t.Constants, constant), append(keys, key)
	}
	if len(keys) > arena.MaxConstants {
		return usage("--tune %s: want at most %d", strings.Join(c.Tune, ","), arena.MaxConstants)
	}
	network, err := tunedNetwork(spec, keys)
	if err != nil {
		return err
	}
	with := func(values []float64) agent.Spec {
		tuned := spec
		for i, key := range keys {
			var err error
			if tuned, err = tuned.With(key, values[i]); err != nil {
				panic(err) // the constants' ranges are within those of the parameters
			}
		}
		return tuned
	}
	t.New = func(values []float64) arena.Player {
		tuned := with(values)
		return arena.Player{Name: fmt.Sprintf("%s with %s", spec, t.Text(values)), Limit: spec.Time, New: func(seed uint64) (agent.Agent, error) {
			one := tuned
			one.Seed += seed
			return agent.New(one, shared)
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
	r := tuned{Rules: board.Rules().String(), Agent: spec.String(), Seed: c.Seed, Games: best.Games, Best: with(best.Values).String()}
	if len(best.Match.Meetings) == 1 {
		r.Against = &best.Match.Meetings[0]
	}
	found := map[string]float64{}
	for i, constant := range t.Constants {
		r.Constants = append(r.Constants, tunedConstant{constant.Name, best.Values[i], best.Low[i], best.High[i], constant.Usual})
		found[keys[i]] = best.Values[i]
	}
	if r.Written, r.Why, err = network.keep(r.Against, found); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, r)
	}
	return r.write(s.out)
}

// constantOf reads a value of --tune: the name of one of an agent's numbers, or NAME=LOW:HIGH. key is the name in the agent's text.
//
// Without a range, a number is looked for between a quarter of its usual value and four times that. cpuct and fpu have their own ranges,
// and probabilities that are 0 have all of theirs.
func constantOf(text string, spec agent.Spec, numbers []agent.Number) (c arena.Constant, key string, err error) {
	name, between, given := strings.Cut(text, "=")
	key = name
	if f, ok := ask.Named(strings.ReplaceAll(name, "-", "_"), ask.Agents); ok {
		key = f.Name
	}
	i := slices.IndexFunc(numbers, func(n agent.Number) bool { return n.Key == key })
	if i < 0 {
		var names []string
		for _, n := range numbers {
			names = append(names, n.Key)
		}
		return c, "", fmt.Errorf("agent %s has no number %s, but %s", spec.Name, short.Quote(name), cmp.Or(strings.Join(names, ", "), "none to tune"))
	}
	n := numbers[i]
	c = arena.Constant{Name: name, Usual: n.Value, Whole: n.Whole}
	switch low, high, ok := strings.Cut(between, ":"); {
	case given:
		var errLow, errHigh error
		c.Low, errLow = strconv.ParseFloat(low, 64)
		c.High, errHigh = strconv.ParseFloat(high, 64)
		if !ok || errLow != nil || errHigh != nil || !(n.Least <= c.Low && c.Low < c.High && c.High <= n.Most) {
			return c, "", fmt.Errorf("%s is %s, want LOW:HIGH within %g and %g", name, short.Quote(between), n.Least, n.Most)
		}
		if c.Usual < c.Low || c.Usual > c.High {
			return c, "", fmt.Errorf("%s: the agent's own value, %g, must be in the range", short.Quote(text), c.Usual)
		}
	case key == "explore" && spec.Name == "mcts":
		c.Low, c.High = min(0.3, c.Usual), max(8, c.Usual)
	case key == "fpu":
		c.Low, c.High = min(-0.3, c.Usual), max(1.2, c.Usual)
	case c.Usual > 0:
		c.Low, c.High = max(n.Least, c.Usual/4), min(n.Most, 4*c.Usual)
	case n.Least == 0 && n.Most == 1:
		c.Low, c.High = 0, 1
	default:
		return c, "", fmt.Errorf("%s is %g, so that its range must be given: %[1]s=LOW:HIGH", name, c.Usual)
	}
	c.Log = c.Low > 0 && key != "fpu"
	return c, key, nil
}

// networkFile is a network whose file can have the constants that are tuned; nil if there is none.
type networkFile struct {
	open.Stored
	open.Network
}

// tunedNetwork returns the network of an agent whose file can have the numbers with these keys: an agent mcts that does not say itself what
// they are.
func tunedNetwork(spec agent.Spec, keys []string) (*networkFile, error) {
	name, err := open.ParseName(spec.Model)
	if err != nil || name.Sort != open.SortNetwork || spec.Name != "mcts" || spec.Explore != 0 || spec.FPU != nil ||
		slices.ContainsFunc(keys, func(key string) bool { return key != "explore" && key != "fpu" }) {
		return nil, err
	}
	m, n, err := open.Any(spec.Model)
	if err != nil {
		return nil, err
	}
	return &networkFile{m, n}, nil
}

// keep writes constants of the search into a network's file if they are better than the usual ones with a confidence of 97.5%.
// Otherwise it returns why it did not.
func (n *networkFile) keep(against *arena.Meeting, found map[string]float64) (written, why string, err error) {
	switch {
	case against == nil:
		return "", "the usual ones are the best", nil
	case against.TooFew || against.Elo-against.EloError <= 0:
		return "", "it is not clear that they are better than the usual ones: more --games may show it", nil
	case n == nil:
		return "", "", nil
	case n.Version > 0 && n.Path == "":
		return "", fmt.Sprintf("%s is part of the program: evald model export %[1]s -o F.safetensors makes a file that can have them", n.Name), nil
	}
	usual := mcts.DefaultConfig(mcts.PUCT)
	constants := eval.Search{CPUCT: usual.C, FPU: usual.FPU}
	if own, err := n.Search(); err != nil {
		return "", "", err
	} else if own != nil {
		constants = *own
	}
	if x, ok := found["explore"]; ok {
		constants.CPUCT = x
	}
	if x, ok := found["fpu"]; ok {
		constants.FPU = x
	}
	content, err := n.WithSearch(constants)
	if err != nil {
		return "", "", err
	}
	if n.Version == 0 {
		return n.Path, "", durable.WriteFile(n.Path, content)
	}
	store, err := models.UserStore()
	if err != nil {
		return "", "", err
	}
	stored, _, err := store.Add(n.Entry, content)
	return stored.Ref(), "", err
}

func (r *tuned) write(w io.Writer) error {
	for _, c := range r.Constants {
		fmt.Fprintf(w, "%s %g (90%%: %g to %g), usual %g\n", c.Name, c.Value, c.Low, c.High, c.Usual)
	}
	if a := r.Against; a != nil {
		fmt.Fprintf(w, "found by %d games; in %d others %+.0f ±%.0f Elo against the usual ones (%d won, %d drawn, %d lost)\n", r.Games, a.Games, a.Elo, a.EloError, a.Wins, a.Draws, a.Losses)
	}
	if r.Why != "" {
		fmt.Fprintln(w, r.Why)
	}
	if r.Written != "" {
		fmt.Fprintf(w, "written into %s\n", r.Written)
	}
	_, err := fmt.Fprintf(w, "the agent with these constants: %s\n", r.Best)
	return err
}
