package agent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// timed are all agents that can have a limit of time, with this one; those that can have a network
// have the model stub.
func timed(t *testing.T, limit string) (all []string) {
	t.Helper()
	for _, name := range agent.Names() {
		if _, err := agent.Parse(name + ":time=" + limit); err != nil {
			continue // the agent has no limit of time
		}
		text := name + ":time=" + limit
		if _, err := agent.Parse(text + ",model=stub"); err == nil {
			text += ",model=stub"
		}
		all = append(all, text)
	}
	if len(all) < 8 || !strings.Contains(strings.Join(all, " "), "model=stub") {
		t.Fatalf("only %q have a limit of time", all)
	}
	return all
}

// slow are networks that answer the given number of batches, and call answered, if not nil, for
// each. Later ones wait until the search gives up.
func slow(answers int, answered func()) agent.Shared {
	return agent.Shared{Memory: 1 << 20, Models: func(string) (*eval.Evaluator, error) {
		left := answers
		return evaltest.Raw(&evaltest.Stub{Before: func(ctx context.Context, _ *eval.Batch) error {
			if left--; left >= 0 {
				if answered != nil {
					answered()
				}
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}}), nil
	}}
}

// An agent whose time is over before it knows anything wins at once or prevents the other side from
// it, and prefers the centre.
func TestNoTime(t *testing.T) {
	for _, limit := range []string{"1ns", "1ms"} {
		for _, text := range timed(t, limit) {
			if limit == "1ms" && !strings.Contains(text, "model=stub") {
				continue // how much it finds in this time depends on the machine
			}
			for _, b := range gametest.Boards() {
				n := 20
				if strings.HasPrefix(text, "solver") {
					n = 3 // each agent makes a table
				}
				a := newAgent(t, text, slow(0, nil))
				for _, p := range append(gametest.Positions(gametest.Rand(8), b, n, true), game.Position{}) {
					if b.Result(p) != game.Ongoing {
						continue
					}
					action := move(t, a, b, p)
					o := b.Outlook(p)
					if b.Cell(p, action).And(o.Moves).IsZero() {
						t.Errorf("%s, %v %+v: plays %d, want one of %v", text, b.Rules(), p, action, o.Moves)
					}
					stuck := strings.Contains(text, "model=stub") && o.Result == game.Ongoing // trees find decided positions without a network
					empty := b.Rules() == game.Connect4 && p.Plies() == 0
					if want := agent.Quick(b, p); action != want && limit == "1ns" && (stuck || empty) {
						t.Errorf("%s, %v %+v: plays %d, want %d, by bitsquares", text, b.Rules(), p, action, want)
					}
				}
			}
		}
	}
	for rules, want := range map[game.Rules]int{game.Connect4: 3, game.TicTacToe: 4, {Columns: 8, Rows: 7, InARow: 5, Gravity: true}: 3, {Columns: 1, Rows: 9, InARow: 9, Gravity: true}: 0} {
		if got := agent.Quick(game.MustBoard(rules), game.Position{}); got != want {
			t.Errorf("the first move on %v: %d, want %d", rules, got, want)
		}
	}
}

// An agent whose time is over when its network has answered the position alone plays the likeliest
// move of those that the next stones leave.
func TestTimeForThePolicy(t *testing.T) {
	b := game.MustBoard(game.Rules{Columns: 9, Rows: 7, InARow: 4, Gravity: true}) // too many cells for the solver
	policy := newAgent(t, "policy:model=stub", slow(1<<20, nil))
	asked := 0
	for i, text := range timed(t, "1ms") {
		if !strings.Contains(text, "model=stub") {
			continue
		}
		for _, p := range gametest.Open(gametest.Rand(2), b, 30) {
			if p, _ = b.Canonical(p); b.Cells()-p.Plies() <= 42 {
				continue
			}
			for limit := 10 * time.Millisecond; ; limit *= 2 { // a busy machine needs more time to ask at all
				answered := false
				a := newAgent(t, timed(t, limit.String())[i], slow(1, func() { answered = true }))
				got, want := move(t, a, b, p), move(t, policy, b, p)
				if !answered {
					continue
				}
				if asked++; got != want {
					t.Errorf("%s, %+v: plays %d, the policy's best is %d", text, p, got, want)
				}
				break
			}
		}
	}
	if asked < 10 {
		t.Errorf("%d positions", asked)
	}
}
