package play

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var escapes = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// golden compares text without colours with a file of testdata. Trailing blanks do not count.
func golden(t *testing.T, name, got string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(escapes.ReplaceAllString(got, "")) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	got = strings.Join(lines, "\n") + "\n"
	path := filepath.Join("testdata", name)
	if *update {
		gametest.OK(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want := gametest.Must(os.ReadFile(path))(t)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; go test ./cmd/evald/internal/play -update writes it anew):\n%s", path, diff)
	}
}

// script is an agent that makes the given moves in turn, and then fails.
type script struct{ moves []int }

func (s *script) Move(ctx context.Context, _ *game.Board, _ game.Position) (int, error) {
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if len(s.moves) == 0 {
		return 0, errors.New("no more moves in the script")
	}
	a := s.moves[0]
	s.moves = s.moves[1:]
	return a, nil
}

// thinker is an agent that makes the given moves, and then thinks until it is stopped.
type thinker struct {
	script
	began, stopped chan game.Position
}

func newThinker(moves ...int) *thinker {
	return &thinker{script{moves}, make(chan game.Position, 10), make(chan game.Position, 10)}
}

func (t *thinker) Move(ctx context.Context, b *game.Board, p game.Position) (int, error) {
	if len(t.moves) > 0 {
		return t.script.Move(ctx, b, p)
	}
	t.began <- p
	<-ctx.Done()
	t.stopped <- p
	return 0, ctx.Err()
}

// within receives a value from a channel.
func within[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(time.Minute):
		t.Fatal("nothing came within a minute")
	}
	return v
}

// random is a player of random moves.
func random(t *testing.T, seed int) *Player {
	t.Helper()
	a := gametest.Must(agent.New(agent.Spec{Name: "random", Search: ask.Search{Seed: uint64(seed)}}, agent.Shared{}))(t)
	return &Player{"random", a}
}

// config is a game of a person against an agent, or of two people if opponent is nil.
func config(t *testing.T, position string, opponent *Player) Config {
	t.Helper()
	prefix, moves, found := strings.Cut(position, ":")
	if !found {
		prefix, moves = "7x6x4", position
	}
	rules := gametest.Must(game.ParseRules(prefix))(t)
	b := game.MustBoard(rules)
	_, start, err := b.ParseMoves(moves)
	gametest.OK(t, err)
	e := gametest.Must(heuristic.New(eval.Bitsquares))(t)
	c := Config{Board: b, Start: start, Players: [2]Player{{Name: "you"}, {Name: "person"}}, Evaluator: e, Search: "bitsquares"}
	if opponent != nil {
		c.Players[1] = *opponent
	}
	return c
}
