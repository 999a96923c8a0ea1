package cluster

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/selfplay"
)

// keeper is a learner without a server that accepts games 0 to games-1, played by a configuration with bitsquares.
func keeper(t testing.TB, c selfplay.Config, games int) *Learner {
	t.Helper()
	store := gametest.Must(selfplay.OpenStore(t.TempDir(), c, games))(t)
	t.Cleanup(func() { gametest.OK(t, store.Close()) })
	l := &Learner{progress: make(chan struct{}, 1), state: newLearnerState("v", usual, slog.New(slog.DiscardHandler), nil)}
	l.state.run = "R"
	l.state.begin(newGeneration(selfplay.Batch{Config: c, Games: games}, nil, store, games, time.Now()))
	return l
}

// playedHere are games 0 to n-1 of a configuration.
func playedHere(t testing.TB, c selfplay.Config, n int) (games []selfplay.Game) {
	t.Helper()
	e := gametest.Must(heuristic.New(eval.Bitsquares))(t)
	games = make([]selfplay.Game, n)
	gametest.OK(t, selfplay.Play(t.Context(), e, c, 0, n, nil, func(g *selfplay.Game) error {
		games[g.Number] = *g
		return nil
	}))
	return games
}

// cheap is a configuration whose games are played fast.
func cheap() selfplay.Config {
	c := selfplay.DefaultConfig()
	c.Network, c.Visits, c.FastVisits = "bitsquares", 8, 4
	return c
}

// Messages that are read and judged at the same time get their own verdicts, and the games of the good ones are stored.
func TestJudgedTogether(t *testing.T) {
	c := cheap()
	l := keeper(t, c, together)
	var group []*nats.Msg
	for n, g := range playedHere(t, c, together) {
		p := parcel{Version: "v", Run: "R", Settings: l.state.playing.id, Games: []selfplay.Game{g}}
		switch n % 3 {
		case 1:
			p.Games[0].Result = 2
		case 2:
			p.Version = fmt.Sprint("w", n)
		}
		group = append(group, &nats.Msg{Data: encode(p)})
	}
	for n, p := range l.keepParcels(group) {
		want := []string{"", fmt.Sprintf("game %d: ", n), fmt.Sprintf(`its version is "w%d"`, n)}[n%3]
		if got := p.reply.Refused; !strings.HasPrefix(got, want) || want == "" && !p.reply.ok() {
			t.Errorf("message %d: %+v, want %q", n, p.reply, want)
		}
		if has := l.state.playing.store.Has(n); has != (n%3 == 0) {
			t.Errorf("game %d is stored: %t", n, has)
		}
	}
}

// BenchmarkKeep measures the learner with games of 7x6 that arrive as fast as it reads them, 20 in a message and 64 messages at once.
// With -cpuprofile it shows how much of the time is in goroutines that share the work, and how much in keepGroup itself.
func BenchmarkKeep(b *testing.B) {
	const each, groups = 20, 16
	const games = each * together * groups
	c := cheap()
	played := playedHere(b, c, 500)
	settings := keeper(b, c, games).state.playing.id
	var messages []*nats.Msg
	for first := 0; first < games; first += each {
		p := parcel{Version: "v", Run: "R", Settings: settings}
		for n := first; n < first+each; n++ {
			g := played[n%len(played)]
			g.Number = n
			p.Games = append(p.Games, g)
		}
		messages = append(messages, &nats.Msg{Data: encode(p)})
	}
	for b.Loop() {
		l := keeper(b, c, games)
		for first := 0; first < len(messages); first += together {
			l.keepGroup(messages[first : first+together])
		}
		if had := l.state.playing.store.First(); had != games {
			b.Fatalf("%d of %d games were stored", had, games)
		}
	}
	b.ReportMetric(float64(b.N*games)/b.Elapsed().Seconds(), "games/s")
}
