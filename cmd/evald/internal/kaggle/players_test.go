package kaggle

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
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

// An agent that ignores time is stopped, one that fails is not used again, and if all agents think, a turn gets an error.
func TestLost(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, hurry := t.Context(), Turn{State: after(t, "-"), Act: 40 * time.Millisecond}
	g := newGate()
	players := byStub(t, g.wait)
	go func() { <-g.entered }()
	if _, err := players.Move(ctx, hurry); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errBusy) {
		t.Errorf("an agent that waits: error %v, want context.DeadlineExceeded alone", err)
	}
	if len(players.idle) != 0 || players.busy != 0 {
		t.Errorf("%d agents wait and %d think, want none: the only one has failed", len(players.idle), players.busy)
	}
	go func() {
		<-g.entered
		g.open <- struct{}{}
	}()
	if action, err := players.Move(ctx, Turn{State: after(t, "1212"), Act: time.Minute}); err != nil || action != 0 {
		t.Errorf("the next move: column %d, %v; want 0", action, err)
	}

	players = byStub(t, g.wait)
	first := make(chan error, 1)
	go func() {
		_, err := players.Move(ctx, Turn{State: after(t, "-"), Act: time.Minute})
		first <- err
	}()
	<-g.entered
	if _, err := players.Move(ctx, hurry); !errors.Is(err, errBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second move: error %v, want errBusy", err)
	}
	g.open <- struct{}{}
	if err := <-first; err != nil {
		t.Error(err)
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

// An agent that fails or panics is dropped.
func TestFailures(t *testing.T) {
	for _, panics := range []bool{false, true} {
		players := byStub(t, func(context.Context, *eval.Batch) error {
			if panics {
				panic("moody")
			}
			return errors.New("not today")
		})
		func() {
			defer func() {
				if got := recover() != nil; got != panics {
					t.Errorf("panic %v, want %v", got, panics)
				}
			}()
			if _, err := players.Move(t.Context(), Turn{State: after(t, "-"), Act: time.Second}); err == nil || !strings.Contains(err.Error(), "not today") {
				t.Errorf("error %v", err)
			}
		}()
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
