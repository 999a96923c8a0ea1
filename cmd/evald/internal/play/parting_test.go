package play

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// After the end of the program its terminal shows the moves, how to go on, and where the page opens the game.
func TestParting(t *testing.T) {
	in, keys := io.Pipe()
	opponent := newThinker()
	done := make(chan error, 1)
	var out bytes.Buffer
	go func() { done <- Run(t.Context(), config(t, "-", &Player{"strong", opponent}), in, &out) }()
	fmt.Fprint(keys, "4")
	within(t, opponent.began)
	fmt.Fprint(keys, "q")
	gametest.OK(t, within(t, done))
	keys.Close()
	_, rest, found := strings.Cut(out.String(), "\x1b[?1049l") // the terminal shows its own screen again
	if !found || !strings.Contains(rest, "7x6x4: X you, O strong; ") || !strings.Contains(rest, "page     http://127.0.0.1:8000/#7x6x4:4") {
		t.Errorf("after the end there is %q", rest)
	}
}

func TestPartingText(t *testing.T) {
	for name, c := range map[string]struct {
		position, keys string
		agents         [2]bool
		flags          []string
		want           string
	}{
		"nothing": {"-", "", [2]bool{}, nil, ""},
		"people":  {"-", "4455", [2]bool{}, nil, "7x6x4: X you, O person; X to move\nmoves    4455\ngo on    evald play --side both --position 7x6x4:4455\npage     http://127.0.0.1:8000/#7x6x4:4455, while evald serve runs\n"},
		"won":     {"3x3x3free:5", "1298", [2]bool{false, true}, nil, "3x3x3free: X you, O a'b; X wins\nmoves    3x3x3free:51298\ngo on    evald play --agent 'a'\\''b' --position 3x3x3free:51298\npage     http://127.0.0.1:8000/#3x3x3free:51298, while evald serve runs\n"},
		"flags":   {"44", "", [2]bool{true, true}, []string{"--evaluate", "my net"}, "go on    evald play --side none --agent 'a'\\''b' --agent 'a'\\''b' --evaluate 'my net' --position 7x6x4:44\n"},
	} {
		t.Run(name, func(t *testing.T) {
			g := config(t, c.position, nil)
			for i, agent := range c.agents {
				if agent {
					g.Players[i] = Player{"a'b", &script{}}
				}
			}
			g.Flags = c.flags
			s := g.session()
			for _, k := range c.keys {
				gametest.OK(t, s.Play(Action(g.Board, string(k))))
			}
			if got := g.parting(s); got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// After an exchange of the sides the command seats the players as they sat at last.
func TestPartingSwapped(t *testing.T) {
	c := config(t, "44", &Player{"casual", &script{}})
	s := c.session()
	s.Swap()
	if got := c.parting(s); !strings.Contains(got, "X casual, O you") || !strings.Contains(got, "evald play --side second --agent casual --position 7x6x4:44\n") {
		t.Errorf("got\n%s", got)
	}
}

// Who types line by line gets the same at the end; scripts do not.
func TestPlainParting(t *testing.T) {
	for prompt, want := range map[string]bool{"> ": true, "": false} {
		lines := steady
		lines.Prompt = prompt
		var out bytes.Buffer
		gametest.OK(t, Plain(t.Context(), config(t, "-", nil), lines, strings.NewReader("4\nquit\n"), &out))
		if got := strings.Contains(out.String(), "go on    evald play --side both --position 7x6x4:4\n"); got != want {
			t.Errorf("prompt %q: %s", prompt, out.String())
		}
	}
}
