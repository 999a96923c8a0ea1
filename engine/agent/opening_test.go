package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/mcts/opening"
)

// A tree search plays the moves of its book at once, and searches in other positions and on other boards.
func TestOpeningBook(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	book := opening.New(b)
	grow := agent.Shared{Models: stubModels, Searched: func(tree *mcts.Tree) { book.Add(tree) }}
	var start game.Position
	edge := b.Play(start, 0)
	for _, p := range []game.Position{start, edge} { // so the book's only move is the edge, where no search begins
		move(t, newAgent(t, "uct-bitsquares:sims=100", grow), b, p)
	}
	shared := agent.Shared{
		Models: func(string) (*eval.Evaluator, error) {
			return evaltest.Raw(&evaltest.Stub{Before: func(context.Context, *eval.Batch) error { return errors.New("searched") }}), nil
		},
		Books: func(string) (*opening.Book, error) { return book, nil },
	}
	a := newAgent(t, "mcts:visits=10,book=x", shared)
	if got := move(t, a, b, start); got != 0 {
		t.Errorf("the move is %d, and the book has 0", got)
	}
	for _, at := range []struct {
		b *game.Board
		p game.Position
	}{{b, edge}, {b, b.Play(start, 3)}, {game.MustBoard(game.Rules{Rows: 7, Columns: 7, InARow: 4, Gravity: true}), start}} {
		if _, err := a.Move(t.Context(), at.b, at.p); err == nil || !strings.Contains(err.Error(), "searched") {
			t.Errorf("%v, %v: error %v, want a search", at.b.Rules(), at.p, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Move(ctx, b, start); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: error %v", err)
	}
	if _, err := agent.New(gametest.Must(agent.Parse("uct:book=x"))(t), agent.Shared{}); err == nil || !strings.Contains(err.Error(), "no opening books here") {
		t.Errorf("where there are no books: error %v", err)
	}
}
