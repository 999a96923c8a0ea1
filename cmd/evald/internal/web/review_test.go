package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evald/evald/cmd/evald/internal/answer"
	"github.com/evald/evald/cmd/evald/internal/pasted"
	"github.com/evald/evald/cmd/evald/internal/places"
	"github.com/evald/evald/cmd/evald/internal/review"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/solver"
)

func reviewOf(t testing.TB, h http.Handler, text string) reviewed {
	t.Helper()
	body := gametest.Must(json.Marshal(map[string]string{"game": text}))(t)
	return answered[reviewed](t, asked(t, h, "/ui/review", string(body)))
}

// A game is read in all its forms, and its marks are those of the review.
func TestReview(t *testing.T) {
	if gametest.Race {
		t.Skip("solves whole games")
	}
	h := handler(t, reviewConfig())
	const moves = "7371311325657771745663464"
	g := reviewOf(t, h, string(gametest.Must(os.ReadFile("../pasted/testdata/replay-7x6x4.json"))(t)))
	if g.Position != "7x6x4:"+moves || !g.Over || len(g.Winning) != 4 || len(g.Moves) != len(moves) || len(g.Positions) != len(moves)+1 {
		t.Fatalf("the replay is %+v", g)
	}
	link := reviewOf(t, h, "http://x/#review=7x6x4:"+moves)
	if link.Position != g.Position {
		t.Errorf("the link is %s", link.Position)
	}
	b := game.MustBoard(game.Connect4)
	_, actions, err := b.ParseMoves(moves)
	gametest.OK(t, err)
	want := gametest.Must(review.New(b, review.Options{Book: solver.ShippedBook(b.Rules())}))(t).Game(t.Context(), actions)
	for i, m := range g.Moves {
		agreed := m.Mark == want.Marks[i].Kind && m.By == want.Marks[i].By && m.Critical == (want.Critical[i] == review.Yes)
		if !agreed {
			t.Errorf("move %d is %+v, want %+v", i, m, want.Marks[i])
		}
	}
	for i, p := range g.Positions {
		if exact := cmp.Compare(want.Scores[i].Low, 0) * (1 - i%2*2); p.Least > exact || p.Most < exact || (p.Value == nil) != (p.Least == p.Most) {
			t.Errorf("after %d moves %+v, the result is %d", i, p, exact)
		}
	}
	sum := review.Accuracy{}
	for _, side := range g.Accuracy {
		for _, a := range side {
			sum.Critical, sum.Kept, sum.Open = sum.Critical+a.Critical, sum.Kept+a.Kept, sum.Open+a.Open
		}
	}
	if len(g.Accuracy[0]) != 3 || sum.Critical < sum.Kept || sum.Critical+sum.Open == 0 {
		t.Errorf("accuracy %+v", g.Accuracy)
	}
}

// The distance of a win counts the winner's own moves.
func TestReviewDistance(t *testing.T) {
	g := reviewOf(t, handler(t, Config{}), "4x4x3:11223")
	if last, before := g.Positions[5], g.Positions[4]; last.Least != 1 || last.In != 0 || before.Least != 1 || before.In != 1 {
		t.Errorf("a won game ends with %+v, %+v", before, last)
	}
	if first := g.Positions[2]; first.Least != 1 || first.In < 2 {
		t.Errorf("two moves before, %+v", first)
	}
	g = reviewOf(t, handler(t, Config{}), "1212121")
	if last, before := g.Positions[7], g.Positions[6]; last.Least != 1 || last.In != 0 || before.Least != 1 || before.In != 1 {
		t.Errorf("a won game ends with %+v, %+v", before, last)
	}
}

// Every board is reviewed, and where nothing is proved the evaluator's opinion is shown.
func TestReviewBoards(t *testing.T) {
	h := handler(t, Config{Limits: Limits{Review: 200 * time.Millisecond}})
	open := 0
	for _, b := range gametest.Boards() {
		random := gametest.Rand(7)
		var p game.Position
		var moves []int
		for b.Result(p) == game.Ongoing {
			a := b.Action(b.Legal(p).Nth(random.IntN(b.Legal(p).OnesCount())).First())
			moves, p = append(moves, a), b.Play(p, a)
		}
		g := reviewOf(t, h, b.Rules().String()+":"+game.FormatMoves(b.Rules(), moves))
		if len(g.Moves) != len(moves) || !g.Over {
			t.Errorf("%v: %+v", b.Rules(), g)
		}
		for _, p := range g.Positions {
			if p.Least < p.Most {
				open++
				if p.Value == nil || *p.Value < -1 || *p.Value > 1 {
					t.Errorf("%v: %+v", b.Rules(), p)
				}
			}
		}
		last := slices.IndexFunc(g.Moves, func(m reviewedMove) bool { return m.Mark != review.Best })
		if last >= 0 {
			e := answered[explained](t, asked(t, h, "/ui/why", fmt.Sprintf(`{"position":%q,"move":%d}`, g.Position, last)))
			if e.Move != last {
				t.Errorf("%v: %+v", b.Rules(), e)
			}
		}
	}
	if open == 0 {
		t.Error("every position of every board is proved in 0.2 s")
	}
}

// A review continues what an earlier one has found, which must be of the same game.
func TestReviewFurther(t *testing.T) {
	h := handler(t, Config{Limits: Limits{Review: time.Minute, Time: time.Minute}})
	const position = "5x4x4:45544222541125"
	want := reviewOf(t, h, position)
	further := func(scores string, limit uint64) *http.Response {
		return asked(t, h, "/ui/review", fmt.Sprintf(`{"game":%q,"further":{"scores":[%s],"limit":%d}}`, position, scores, limit))
	}
	nothing := strings.Repeat(",[-20,20]", 14)
	if got := answered[reviewed](t, further("[-20,20]"+nothing, 4096)); !reflect.DeepEqual(want, got) || got.Further != nil {
		t.Errorf("one review is %+v, and one that was continued %+v", want, got)
	}
	// It believes what it is told, here that the first side wins from the beginning.
	if got := answered[reviewed](t, further("[1,20]"+nothing, 0)); got.Positions[0].Least != 1 {
		t.Errorf("of a won game it says %+v", got.Positions[0])
	}
	for scores, limit := range map[string]uint64{"[0,0]": 1, "[1,0]" + nothing: 1, "[-21,0]" + nothing: 1, "[0,21]" + nothing: 1, "[0,0]" + nothing: 1<<40 + 1} {
		if r := further(scores, limit); r.StatusCode != http.StatusBadRequest {
			t.Errorf("%s, limit %d: status %d", scores, limit, r.StatusCode)
		}
	}
}

// Why a move is a mistake: a best move, and the line that refutes it.
func TestWhy(t *testing.T) {
	h := handler(t, Config{})
	e := answered[explained](t, asked(t, h, "/ui/why", `{"position":"7x6x4:4455667","move":5}`)) // yellow does not see 4, 5, 6, 7
	if e.After.How != review.AtOnce || !e.After.Proved || e.After.Result != 1 || e.After.Side != 0 || len(e.After.Moves) != 1 || len(e.After.Winning) != 4 {
		t.Errorf("%+v", e)
	}
	e = answered[explained](t, asked(t, h, "/ui/why", `{"position":"4x5x4:11223","move":4}`))
	if !e.After.Proved || len(e.Best) == 0 || len(e.After.Moves) == 0 || len(e.After.Moves[0].Threats) != 2 {
		t.Errorf("%+v", e)
	}
}

// Requests of reviews that are refused. A long one is read after it has a place only.
func TestReviewRefusals(t *testing.T) {
	h := handler(t, Config{Places: places.Limited(1, 1), Limits: Limits{Time: time.Second, Review: time.Second / 5}})
	long := `{"game":"` + strings.Repeat(" ", maxBody) + `44"}`
	if g := reviewOf(t, h, strings.Repeat(" ", maxBody)+"44"); g.Position != "7x6x4:44" {
		t.Errorf("a long text is %s", g.Position)
	}
	for _, c := range []struct {
		path, body string
		status     int
		says       string
	}{
		{"/ui/review", `{"game":"448"}`, 400, "move 3 is"},
		{"/ui/review", `{"game":""}`, 400, "is empty"},
		{"/ui/review", `{"game":"{\"name\":\"chess\"}"}`, 400, "connectx"},
		{"/ui/review", `{"position":"44"}`, 400, "unknown field"},
		{"/ui/review", `{"game":"` + strings.Repeat("1", int(answer.MaxBody("review"))) + `"}`, 413, "longer than"},
		{"/ui/review", `{"game":"` + strings.Repeat("1", pasted.MaxText+1) + `"}`, 400, "longer than"},
		{"/ui/why", `{"position":"44","move":2}`, 400, "0 to 1"},
		{"/ui/why", `{"position":"44","move":-1}`, 400, "0 to 1"},
		{"/ui/why", `{"position":"-","move":0}`, 400, "move is 0"},
		{"/ui/why", `{"position":"448","move":0}`, 400, "move 3"},
	} {
		r := asked(t, h, c.path, c.body)
		var e struct{ Error string }
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil || r.StatusCode != c.status || !strings.Contains(e.Error, c.says) {
			t.Errorf("%s %.60s: status %d, %q, %v; want %d, %q", c.path, c.body, r.StatusCode, e.Error, err, c.status, c.says)
		}
	}
	gametest.OK(t, h.config.Places.Take(t.Context()))
	defer h.config.Places.Leave()
	if r := asked(t, h, "/ui/review", long); r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" {
		t.Errorf("without a place: status %d", r.StatusCode)
	}
}
