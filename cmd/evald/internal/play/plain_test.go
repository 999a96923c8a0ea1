package play

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/evald/evald/engine/game/gametest"
)

// steady are settings under which answers do not depend on the machine's speed.
var steady = Lines{Visits: 500, Wait: time.Minute}

func TestPlain(t *testing.T) {
	for name, c := range map[string]struct{ position, moves, in string }{
		"game":   {"-", "123", "4\n 4 \n# a comment\n\n4\n4\nboard\n1\nundo\nmoves\nquit\n4\n"},
		"undo":   {"-", "1234", "undo\nredo\n1\n2\nundo\nundo\nundo\nredo\nswap\nnew\nquit"},
		"bad":    {"444444", "48", "4\n8\n0\n\x1b[A\né\n" + strings.Repeat("4", 70_000) + "\n{\n44\n1\ngo\n2\ngo\n"},
		"two":    {"-", "12", "4 4\n4 hint\nhint 4\n4 # my first move\n1\t2\nmoves\nquit\n"},
		"search": {"44444", "1", "hint\neval\nHELP\n"},
		"solve":  {"2252576253462244111563", "1", "solve\n"},
		"won":    {"414243", "1", "4\nhint\neval\nsolve\ngo\n4\nhelp\n"},
		"free":   {"3x3x3free:-", "12", "5\n5\n9\n"},
		"wide":   {"11x2x3:-", "ab", "a\nb\nc\n"},
	} {
		t.Run(name, func(t *testing.T) {
			config := config(t, c.position, nil)
			var moves []int
			for _, m := range c.moves {
				moves = append(moves, strings.Index("123456789ab", string(m)))
			}
			config.Players[1] = Player{"script", &script{moves: moves}}
			if name == "search" || name == "solve" {
				config.Players[1].Agent = nil
			}
			var out bytes.Buffer
			gametest.OK(t, Plain(t.Context(), config, steady, strings.NewReader(c.in), &out))
			golden(t, "plain_"+name+".txt", out.String())
		})
	}
}

// Two agents need no input; a prompt is only written if one is configured.
func TestPlainAgents(t *testing.T) {
	c := config(t, "-", nil)
	c.Players = [2]Player{*random(t, 1), *random(t, 1)}
	l := steady
	l.Prompt = "> "
	var out bytes.Buffer
	gametest.OK(t, Plain(t.Context(), c, l, strings.NewReader(""), &out))
	if text := out.String(); !strings.Contains(text, "\nX plays ") || !strings.Contains(text, " wins\n> ") {
		t.Errorf("two agents:\n%s", text)
	}
}

// The end of the context ends the wait for a line and for an agent. A full disk ends the game.
func TestPlainEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, writer := io.Pipe()
	defer writer.Close()
	opponent := newThinker()
	done := make(chan error, 1)
	go func() { done <- Plain(ctx, config(t, "-", &Player{"thinker", opponent}), steady, in, io.Discard) }()
	fmt.Fprintln(writer, "4")
	within(t, opponent.began)
	cancel()
	if err := within(t, done); !errors.Is(err, context.Canceled) {
		t.Errorf("while an agent thinks: error %v, want context.Canceled", err)
	}

	ctx, cancel = context.WithCancel(t.Context())
	shown, out := io.Pipe()
	go func() { done <- Plain(ctx, config(t, "-", nil), steady, in, out) }()
	gametest.Must(shown.Read(make([]byte, 4096)))(t)
	cancel()
	if err := within(t, done); !errors.Is(err, context.Canceled) {
		t.Errorf("while it waits for input: error %v, want context.Canceled", err)
	}

	full := errors.New("no space left")
	shown.CloseWithError(full)
	if err := Plain(t.Context(), config(t, "-", nil), steady, strings.NewReader("1\n2\n"), out); !errors.Is(err, full) {
		t.Errorf("a full disk: error %v, want %v", err, full)
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("4\nundo\nredo\nhint\neval\nswap\nnew\nboard\ngo\nhelp\nquit\n")
	f.Add("\x00\n{}\n-\n1 2\n#")
	f.Fuzz(func(t *testing.T, in string) {
		if strings.Contains(strings.ToLower(in), "solve") {
			return // it would take seconds
		}
		c := config(t, "3x3x3free:-", &Player{"script", &script{moves: []int{0, 1, 2, 3}}})
		var out bytes.Buffer
		gametest.OK(t, Plain(t.Context(), c, Lines{Visits: 50, Wait: time.Second}, strings.NewReader(in), &out))
	})
}
