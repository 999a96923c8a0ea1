package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// TestSimulateShares: a client that could always fill a batch gets its share of all rows, whatever the others ask for and on however
// many boards. On a board each client either has many rows waiting, or one at a time, or none.
func TestSimulateShares(t *testing.T) {
	gametest.Simulate(t, 150, gametest.Simulation{Clients: 5, Requests: 300}, simulateShares)
}

func simulateShares(w *gametest.Simulation) error {
	r, now := rand.New(rand.NewPCG(w.Seed, 3)), time.Unix(0, 0)
	c := Config{MaxRows: 4 << r.IntN(4), InFlight: 1}
	s, boards := newScheduler(c), gametest.Boards()[:1+r.IntN(3)]
	type client struct {
		Caller
		rows     map[*game.Board]int // of a request, of which it always has one
		greedy   bool                // it always has many rows waiting
		trickles bool                // it may pay for rows of others
		served   float64
	}
	clients := map[string]*client{}
	ask := func(of *client, b *game.Board) {
		if err := s.submit(newRequest(context.Background(), eval.NewBatch(b, of.rows[b]), of.Caller, now), now); err != nil {
			panic(err)
		}
	}
	for i := range 2 + r.IntN(w.Clients) {
		of := &client{Caller: Caller{Client: fmt.Sprint("client ", i), Weight: []float64{1, 1, 2, 8}[r.IntN(4)]}, rows: map[*game.Board]int{}}
		clients[of.Client] = of
		for _, b := range boards {
			if of.rows[b] = []int{0, 1, 8 * c.MaxRows}[r.IntN(3)]; of.rows[b] > 0 {
				of.greedy = of.greedy || of.rows[b] > 1
				of.trickles = of.trickles || of.rows[b] == 1
				ask(of, b)
				if of.rows[b] > 1 { // so that rows wait also when the last one of a request is sent
					ask(of, b)
				}
			}
		}
		for _, b := range boards {
			w.Tracef("%s of weight %v asks for %d rows at a time on %v", of.Client, of.Weight, of.rows[b], b.Rules())
		}
	}
	total := 0.0
	for n := range w.Requests {
		now = now.Add(time.Millisecond)
		x, ok := s.next(now)
		if !ok {
			return nil // no client has work
		}
		if x.queue != nil {
			x = s.fill(x, now)
		}
		for _, p := range x.parts {
			of := clients[p.caller.Client]
			of.served += float64(p.to - p.from)
			total += float64(p.to - p.from)
			w.Tracef("batch %d: %d rows of %s on %v", n, p.to-p.from, p.caller.Client, p.batch.Board.Rules())
		}
		s.end()
		for _, p := range x.parts {
			if p.to == p.rows {
				ask(clients[p.caller.Client], p.batch.Board)
			}
		}
		for _, b := range clients {
			if !b.greedy || b.trickles {
				continue
			}
			most, batch := 0.0, float64(c.MaxRows)
			for _, a := range clients { // a batch ahead, a batch of its own, and a batch of others that it pays for
				most += a.Weight * (b.served/b.Weight + 2 + 3*batch/a.Weight + 3*batch/b.Weight + 3*batch)
			}
			if total > most {
				return fmt.Errorf("after %d batches %s has got %v rows of %v", n+1, b.Client, b.served, total)
			}
		}
	}
	return nil
}

// Clients that ask once are forgotten.
func TestClientsForgotten(t *testing.T) {
	s, now, b := newScheduler(Config{MaxRows: 8, InFlight: 1}), time.Unix(0, 0), gametest.Boards()[0]
	for i := range 5 * manyClients {
		r := newRequest(context.Background(), eval.NewBatch(b, 1), Caller{Client: fmt.Sprint("client ", i)}, now)
		gametest.OK(t, s.submit(r, now))
		if x, ok := s.next(now); !ok || len(x.parts) != 1 { // it is due at once
			t.Fatal("no batch")
		}
		s.end()
		if n := len(s.clients); n > manyClients {
			t.Fatalf("%d clients are known", n)
		}
	}
}
