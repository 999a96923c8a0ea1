package kaggle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// On boards of all sizes the rules of thumb agree with an obvious search of two stones: a move that
// wins is played, then one that blocks, and no move lets the other side win at once if another one
// does not.
func TestThumb(t *testing.T) {
	random, seen, each := gametest.Rand(3), map[string]int{}, 30
	if testing.Short() { // one goroutine, in which the race detector has little to find
		each = 1
	}
	for _, r := range []game.Rules{
		game.Connect4,
		{Columns: 4, Rows: 9, InARow: 3, Gravity: true},
		{Columns: 3, Rows: 50, InARow: 3, Gravity: true},
		{Columns: 12, Rows: 13, InARow: 4, Gravity: true},
		{Columns: 20, Rows: 20, InARow: 4, Gravity: true},
		{Columns: 7, Rows: 30, InARow: 3, Gravity: true},
		{Columns: 30, Rows: 7, InARow: 5, Gravity: true},
		{Columns: 1, Rows: 200, InARow: 2, Gravity: true},
		{Columns: 200, Rows: 1, InARow: 2, Gravity: true},
		{Columns: 3, Rows: 50, InARow: 60, Gravity: true},
		{Columns: 11, Rows: 11, InARow: 1, Gravity: true},
		{Columns: 5, Rows: 4, InARow: 1000, Gravity: true},
	} {
		for range each {
			n := gametest.NewNaive(r)
			for plies := random.IntN(r.Cells()); n.Plies < plies; {
				legal := n.Legal()
				a := legal[random.IntN(len(legal))]
				if wins(n, n.Mover(), a) {
					break
				}
				n.Play(a)
			}
			l, odd, err := newLarge("", r, n.Kaggle(), n.Mover())
			if err != nil || odd != nil {
				t.Fatalf("%v: %v, %v", r, odd, err)
			}
			kind, want := obvious(n)
			seen[kind]++
			if got := l.move(); !slices.Contains(want, got) {
				t.Errorf("%v, %v, player %d: column %d, want one of %v, which %s", r, l.cells, l.mark, got, want, kind)
			}
		}
	}
	for _, kind := range []string{"win", "block", "lose later"} {
		if seen[kind] < 20*each/30 {
			t.Errorf("%d positions with moves that %s", seen[kind], kind)
		}
	}
}

// wins reports whether a stone of the player in a column completes a line.
func wins(n *gametest.Naive, player, column int) bool {
	for row, v := range n.Cell[column] {
		if v == 0 {
			n.Cell[column][row] = player
			won := n.Won(player)
			n.Cell[column][row] = 0
			return won
		}
	}
	return false
}

// obvious returns the moves of which the rules of thumb may play any, and what these do.
func obvious(n *gametest.Naive) (kind string, moves []int) {
	var won, blocks, safe []int
	me, legal := n.Mover(), n.Legal()
	for _, a := range legal {
		if wins(n, me, a) {
			won = append(won, a)
		}
		if wins(n, 3-me, a) {
			blocks = append(blocks, a)
		}
		row := slices.Index(n.Cell[a], 0)
		n.Cell[a][row] = me
		if !slices.ContainsFunc(n.Legal(), func(b int) bool { return wins(n, 3-me, b) }) {
			safe = append(safe, a)
		}
		n.Cell[a][row] = 0
	}
	switch {
	case len(won) > 0:
		return "win", won
	case len(blocks) > 0:
		return "block", blocks
	case len(safe) > 0:
		return "lose later", safe
	}
	return "are left", legal
}

// The first stone is in the centre, also on boards of one column or row.
func TestThumbFirst(t *testing.T) {
	for text, want := range map[string]int{"20x20x4": 9, "21x20x4": 10, "1x200x4": 0, "200x1x4": 99} {
		var r game.Rules
		_, err := fmt.Sscanf(text, "%dx%dx%d", &r.Columns, &r.Rows, &r.InARow)
		gametest.OK(t, err)
		l, _, err := newLarge("", r, make([]int, r.Cells()), 1)
		if err != nil || l.move() != want {
			t.Errorf("%s: column %d, %v; want %d", text, l.move(), err, want)
		}
	}
}

// largeObservation is a line of an observation with stones in a board of 13 columns and 12 rows.
func largeObservation(mark, inARow int, stones map[int]int) string {
	cells := make([]int, 13*12)
	for i, v := range stones {
		cells[i] = v
	}
	text, _ := json.Marshal(cells)
	return fmt.Sprintf(`{"observation":{"board":%s,"mark":%d},"configuration":{"rows":12,"columns":13,"inarow":%d}}`, text, mark, inARow)
}

// actOnce returns the reply to a line, and what Act logs.
func actOnce(t *testing.T, line string) (reply, notes string) {
	t.Helper()
	var out, logged bytes.Buffer
	_, err := Act(t.Context(), strings.NewReader(line+"\n"), &out, newPlayers(t, "policy", 1, agent.Shared{}), log.New(&logged, "", 0))
	gametest.OK(t, err)
	return strings.TrimSpace(out.String()), logged.String()
}

// Boards that are too large for agents are played on behind a URL and by lines, with a line in the
// log. Wrong ones are errors.
func TestLargeBoards(t *testing.T) {
	const bottom = 13 * 11
	pair := map[int]int{bottom: 1, bottom + 1: 1, bottom + 2: 1, bottom - 13: 2, bottom - 12: 2, bottom - 11: 2}
	for _, c := range []struct {
		what, line, says string // says is the beginning of the note or the error
		action           int
	}{
		{"the first move", largeObservation(1, 4, nil), `playing by rules of thumb: configuration.rules "13x12x4": needs more than 128 bits`, 6},
		{"a win", largeObservation(1, 4, pair), "playing by rules of thumb: ", 3},
		{"a block", largeObservation(2, 4, map[int]int{bottom: 1, bottom + 1: 1, bottom + 2: 1, bottom - 13: 2, bottom - 12: 2}), "playing by rules of thumb: ", 3},
		{"no line is that long", largeObservation(1, 1000, nil), `playing by rules of thumb: configuration.inarow "1000": must be 1 to 128`, 6},
		{"a wrong mark", largeObservation(2, 4, nil), `playing on: observation.board "13x12x4": 0 stones of player 1, 0 of player 2, and player 2 is to move: no game reaches this`, 6},
		{"finished", largeObservation(1, 3, map[int]int{bottom: 1, bottom + 1: 1, bottom + 2: 1}), `observation.board "win": is how the game has ended`, -1},
		{"floats", largeObservation(1, 4, map[int]int{0: 1}), `observation.board[0] "1": floats: the cell below it, 13, is empty`, -1},
		{"no player", largeObservation(1, 4, map[int]int{bottom: 3}), `observation.board[143] "3": must be 0, 1 or 2`, -1},
		{"no mark", largeObservation(3, 4, nil), `observation.mark "3": must be 1 or 2`, -1},
		{"another board", `{"observation":{"board":[0],"mark":1},"configuration":{"rows":20,"columns":20}}`, `observation.board "1 cells": 20x20x4 has 20 columns of 20; rows and columns name another board`, -1},
		{"overflow", `{"observation":{"board":[],"mark":1},"configuration":{"rows":4611686018427387904,"columns":4}}`, `observation.board "0 cells": 4x4611686018427387904x4 has 4 columns of`, -1},
		{"full", fmt.Sprintf(`{"observation":{"board":[1%s],"mark":2},"configuration":{"rows":1,"columns":129,"inarow":9}}`, strings.Repeat(",2,1", 64)), `observation.board "draw": is how the game has ended`, -1},
	} {
		reply, notes := actOnce(t, c.line)
		want := fmt.Sprintf(`{"action":%d}`, c.action)
		if c.action >= 0 && (reply != want || !strings.Contains(notes, "line 1: "+c.says)) {
			t.Errorf("%s: %s and in the log %q, want %s and %s", c.what, reply, notes, want, c.says)
		}
		if c.action < 0 && (!strings.HasPrefix(reply, `{"error":`) || !strings.Contains(strings.ReplaceAll(reply, `\"`, `"`), "line 1: "+c.says)) {
			t.Errorf("%s: %s, want the error %s", c.what, reply, c.says)
		}
	}

	h := policyHandler(t)
	var logged strings.Builder
	h.Log.SetOutput(&logged)
	server := httptest.NewServer(h)
	defer server.Close()
	line := strings.TrimPrefix(largeObservation(1, 4, pair), `{"observation":`)
	observation, configuration, _ := strings.Cut(line, `,"configuration":`)
	status, reply := post(t, server.Client(), server.URL, fmt.Sprintf(`{"action":"act","state":{"observation":%s},"configuration":%s`, observation, configuration))
	if status != 200 || reply.Action != 3 || !strings.Contains(logged.String(), ": playing by rules of thumb: ") {
		t.Errorf("behind a URL: status %d, %+v, log %q", status, reply, logged.String())
	}
}
