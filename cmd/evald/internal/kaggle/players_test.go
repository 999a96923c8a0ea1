package kaggle

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
)

func after(t *testing.T, moves string) game.State {
	t.Helper()
	b := game.MustBoard(game.Connect4)
	p, _, err := b.ParseMoves(moves)
	gametest.OK(t, err)
	return game.State{Board: b, Position: p, Mark: p.Mover()}
}

// Two interleaved games find their own agents again; a third one replaces the agent that waited longest.
func TestGamesApart(t *testing.T) {
	players := newPlayers(t, "uct-bitsquares:sims=50", 2, agent.Shared{})
	var agents []*player
	for _, c := range []struct {
		now, left string
		agent     int // of agents
	}{
		{"-", "4", 0},
		{"1", "17", 1}, // there is room for two
		{"44", "445", 0},
		{"177", "1776", 1},
		{"22", "223", 0}, // a third game
	} {
		q := gametest.Must(players.take(Turn{State: after(t, c.now), Act: defaultAct}))(t)
		if c.agent == len(agents) && !slices.Contains(agents, q) {
			agents = append(agents, q)
		}
		if slices.Index(agents, q) != c.agent {
			t.Errorf("at %s: agent %d, want %d", c.now, slices.Index(agents, q), c.agent)
		}
		q.left = after(t, c.left)
		players.giveBack(q, true)
	}
	if len(players.idle) != 2 || players.busy != 0 {
		t.Errorf("%d agents wait and %d think, want 2 and 0", len(players.idle), players.busy)
	}
}

func TestFollows(t *testing.T) {
	for _, c := range []struct {
		left, now string
		want      bool
	}{
		{"4", "41", true},
		{"4451", "44512", true},
		{"4", "4", false},
		{"4", "441", false},
		{"4", "34", false},
		{"41", "14", false},
		{"445", "6445", false},
	} {
		if got := follows(after(t, c.left), after(t, c.now)); got != c.want {
			t.Errorf("%s after %s: %v, want %v", c.now, c.left, got, c.want)
		}
	}
	other := game.State{Board: game.MustBoard(game.Rules{Rows: 7, Columns: 7, InARow: 4, Gravity: true}), Mark: 1}
	if follows(game.State{}, after(t, "-")) || follows(after(t, "4"), other) {
		t.Error("a position follows nothing, or one of another game")
	}
}

func TestAllowed(t *testing.T) {
	for _, c := range []struct{ act, own, want time.Duration }{
		{2 * time.Second, 0, 1850 * time.Millisecond},
		{2 * time.Second, 2 * time.Second, 1850 * time.Millisecond},
		{2 * time.Second, 200 * time.Millisecond, 200 * time.Millisecond},
		{100 * time.Millisecond, 2 * time.Second, 50 * time.Millisecond},
		{10 * time.Second, 0, 9450 * time.Millisecond},
		{0, 2 * time.Second, least},
		{0, time.Millisecond, time.Millisecond},
	} {
		if got := allowed(c.act, c.own); got != c.want {
			t.Errorf("a game that gives %v, an agent that takes %v: %v, want %v", c.act, c.own, got, c.want)
		}
	}
	players := newPlayers(t, "uct-bitsquares", 2, agent.Shared{})
	for act, want := range map[time.Duration]time.Duration{2 * time.Second: 1850 * time.Millisecond, time.Second: 900 * time.Millisecond, time.Minute: 2 * time.Second} {
		q, err := players.take(Turn{State: after(t, "-"), Act: act})
		if err != nil || q.time != want {
			t.Fatalf("a game that gives %v: an agent of %v, %v; want %v", act, q.time, err, want)
		}
		players.giveBack(q, true)
	}
	if len(players.idle) > 2 {
		t.Errorf("%d agents wait, want at most 2", len(players.idle))
	}
}

// An agent that names no network has the one for short moves in games that give little time, and only there.
func TestShortMoves(t *testing.T) {
	var asked []string
	players := newPlayers(t, "mcts:time=2s", 1, agent.Shared{FastModel: "fast", FastBelow: 50 * time.Millisecond, Models: func(name string) (*eval.Evaluator, error) {
		asked = append(asked, name)
		return heuristic.New(eval.Bitsquares)
	}})
	for _, act := range []time.Duration{90 * time.Millisecond, 2 * time.Second} { // less a reserve: 45 ms and 1.85 s
		q := gametest.Must(players.take(Turn{State: after(t, "-"), Act: act}))(t)
		players.giveBack(q, false)
	}
	if want := []string{"", "fast", ""}; !slices.Equal(asked, want) { // the first is NewPlayers' own
		t.Errorf("the agents ask for the networks %q, want %q", asked, want)
	}
}

// An agent that does not answer in time is stopped and not used again, and if all agents think, a
// turn does not wait for longer than it can. Its move is one by rules of thumb, with the reason.
func TestLate(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, hurry := t.Context(), Turn{State: after(t, "-"), Act: 40 * time.Millisecond}
	g := newGate()
	players := byStub(t, g.wait)
	go func() { <-g.entered }()
	action, instead, err := players.Move(ctx, hurry)
	if err != nil || action != 3 || !errors.Is(instead, context.DeadlineExceeded) || errors.Is(instead, errBusy) {
		t.Errorf("an agent that waits: column %d, %v, because of %v; want 3 because of context.DeadlineExceeded alone", action, err, instead)
	}
	if len(players.idle) != 0 || players.busy != 0 {
		t.Errorf("%d agents wait and %d think, want none: the only one has failed", len(players.idle), players.busy)
	}
	go func() {
		<-g.entered
		g.open <- struct{}{}
	}()
	if action, instead, err := players.Move(ctx, Turn{State: after(t, "1212"), Act: time.Minute}); err != nil || instead != nil || action != 0 {
		t.Errorf("the next move: column %d, %v, %v; want 0, the network's", action, instead, err)
	}

	players = byStub(t, g.wait)
	first := make(chan error, 1)
	go func() {
		_, instead, err := players.Move(ctx, Turn{State: after(t, "-"), Act: time.Minute})
		first <- errors.Join(instead, err)
	}()
	<-g.entered
	hurry.State = after(t, "12121")
	action, instead, err = players.Move(ctx, hurry)
	if err != nil || action != 0 || !errors.Is(instead, errBusy) || !strings.HasPrefix(instead.Error(), "playing by rules of thumb, because the time is over: ") {
		t.Errorf("a second move: column %d, %v, because of %v; want 0, which blocks, because of errBusy", action, err, instead)
	}
	g.open <- struct{}{}
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// No agent that can play for Kaggle loses a game by its network: if it does not answer, the move
// wins, blocks, or is in the centre.
func TestEveryAgentLate(t *testing.T) {
	hangs := agent.Shared{Memory: 1 << 20, Models: func(string) (*eval.Evaluator, error) {
		return evaltest.Raw(&evaltest.Stub{Before: func(ctx context.Context, _ *eval.Batch) error { <-ctx.Done(); return ctx.Err() }}), nil
	}}
	asked := 0
	for _, name := range agent.Names() {
		text := name + ":model=stub"
		if s, err := agent.Parse(text + ",time=5ms"); err == nil {
			text = s.String()
		} else if _, err := agent.Parse(text); err != nil {
			continue // the agent has no network
		}
		asked++
		players := newPlayers(t, text, 1, hangs)
		for moves, want := range map[string]int{"121212": 0, "12121": 0, "-": 3} {
			action, _, err := players.Move(t.Context(), Turn{State: after(t, moves), Act: 20 * time.Millisecond})
			if err != nil || action != want {
				t.Errorf("%s after %s: column %d, %v; want %d", text, moves, action, err, want)
			}
		}
	}
	if asked < 4 {
		t.Errorf("%d agents have a network", asked)
	}
}

// The time in which a program starts is taken from the overage time, and then from the move's.
func TestStartTakesTime(t *testing.T) {
	for _, c := range []struct{ act, overage, late, wantAct, wantOverage time.Duration }{
		{2 * time.Second, time.Minute, time.Second, 2 * time.Second, 59 * time.Second},
		{2 * time.Second, 0, time.Second, time.Second, 0},
		{2 * time.Second, time.Second, 1500 * time.Millisecond, 1500 * time.Millisecond, 0},
		{2 * time.Second, 0, 5 * time.Second, 0, 0},
		{2 * time.Second, 0, 20 * time.Millisecond, 2 * time.Second, 0}, // latency
	} {
		turn := Turn{Act: c.act, Overage: c.overage}
		if turn.late(c.late); turn.Act != c.wantAct || turn.Overage != c.wantOverage {
			t.Errorf("%v + %v, %v later: %v + %v, want %v + %v", c.act, c.overage, c.late, turn.Act, turn.Overage, c.wantAct, c.wantOverage)
		}
	}
	line := func(sent int64) string {
		return fmt.Sprintf(`{"observation":{"board":[0],"mark":1,"remainingOverageTime":0},"configuration":{"rows":1,"columns":1,"actTimeout":60},"sent":%d}`, sent)
	}
	if turn, err := parseLine([]byte(line(1))); err != nil || turn.Act != 0 {
		t.Errorf("a line that was sent in 1970 leaves %v, %v", turn.Act, err)
	}
	if turn, err := parseLine([]byte(line(1 << 40))); err != nil || turn.Act != time.Minute {
		t.Errorf("a line of the future leaves %v, %v; want 1m0s", turn.Act, err)
	}
}

// If the client goes away, its move ends.
func TestClientGone(t *testing.T) {
	defer goleak.VerifyNone(t)
	g := newGate()
	players := byStub(t, g.wait)
	url, stop := serve(t, players)
	ctx, cancel := context.WithCancel(t.Context())
	r := gametest.Must(http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body(after(t, "-"), 600))))(t)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	go func() {
		<-g.entered
		cancel()
	}()
	if reply, err := client.Do(r); !errors.Is(err, context.Canceled) {
		t.Errorf("reply %v, error %v; want context.Canceled", reply, err)
	}
	if err := stop(); err != nil { // returns only after the move has ended
		t.Error(err)
	}
	if players.busy != 0 || len(players.slots) != 0 {
		t.Errorf("%d busy agents, %d slots taken; want none", players.busy, len(players.slots))
	}
}

// An agent that fails or whose evaluator panics is dropped, and its error is that of the move.
func TestFailures(t *testing.T) {
	for panics, want := range map[bool]string{false: "not today", true: "evald has a fault: moody"} {
		players := byStub(t, func(context.Context, *eval.Batch) error {
			if panics {
				panic("moody")
			}
			return errors.New("not today")
		})
		if _, _, err := players.Move(t.Context(), Turn{State: after(t, "-"), Act: time.Second}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		if players.busy != 0 || len(players.idle) != 0 || len(players.slots) != 0 {
			t.Errorf("panic %v: %d busy and %d idle agents, %d slots taken; want none", panics, players.busy, len(players.idle), len(players.slots))
		}
	}
	if _, err := NewPlayers(agent.Spec{Name: "policy", Model: "nope"}, agent.Shared{}, 1); err == nil || !strings.Contains(err.Error(), "nope") {
		t.Errorf("a model that is not there: error %v", err)
	}
	if _, err := NewPlayers(agent.Spec{Name: "random"}, agent.Shared{}, 0); err == nil || !strings.Contains(err.Error(), "0 games") {
		t.Errorf("no games: error %v", err)
	}
}
