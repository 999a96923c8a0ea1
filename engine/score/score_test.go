package score_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/score"
)

// fixed gives every position the same answer.
func fixed(wdl [3]float32, policy ...float32) *eval.Evaluator {
	return evaltest.Raw(&evaltest.Stub{Source: eval.CPU, After: func(b *eval.Batch) {
		for i := range b.Pos {
			copy(b.WDLRow(i), wdl[:])
			copy(b.PolicyRow(i), policy)
		}
	}})
}

func measure(t *testing.T, e *eval.Evaluator, text string) score.Report {
	t.Helper()
	ps, err := score.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	r, err := score.Measure(t.Context(), e, ps, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestMeasure(t *testing.T) {
	// Two positions. In the first, column 4 wins soonest, 3 wins later, and the others lose. In the second, all columns draw
	// except 1; column 4 is full.
	const text = `
# comment
44 -2 -2 3 5 -2 -2 -2
4444445 -1 0 0 -1000 0 0 0
`
	mean := func(value, low, high float64) score.Mean { return score.Mean{Value: value, Low: low, High: high} }
	// Wilson's intervals of 0.5, 1 and 2 in 2, and of 1 in 1.
	quarter, half, whole := mean(0.25, 0.02667734, 0.80213254), mean(0.5, 0.09453121, 0.90546879), mean(1, 0.34238023, 1)
	one := mean(1, 0.20654931, 1)
	const z = 1.959963984540054
	for name, c := range map[string]struct {
		e    *eval.Evaluator
		want score.Summary
	}{
		"column 3": {fixed([3]float32{0.5, 0.3, 0.2}, 0, 0, 1, 0, 0, 0, 0), score.Summary{
			Perfect: half, Good: whole, Regret: mean(1, 1-z, 1+z), ValueSign: half,
			// (0.5-1)^2 + 0.3^2 + 0.2^2 = 0.38 and 0.5^2 + 0.7^2 + 0.2^2 = 0.78
			Brier: mean(0.58, 0.58-0.2*z, 0.58+0.2*z), DecisiveSign: one, CriticalPerfect: half, CriticalGood: whole,
		}},
		// The first position shares 1 and 0; in the second, column 4 is full.
		"columns 1 and 4 alike": {fixed([3]float32{0.5, 0.5, 0}, 0.5, 0, 0, 0.5, 0, 0, 0), score.Summary{
			Perfect: quarter, Good: quarter, Regret: mean(2.25, 2.25-1.25*z, 2.25+1.25*z),
			ValueSign: half, Brier: mean(0.5, 0.5, 0.5), DecisiveSign: one, CriticalPerfect: quarter, CriticalGood: quarter,
		}},
	} {
		c.want.Name, c.want.Positions, c.want.Critical = "all", 2, 2
		c.want.Decisive = 1
		if diff := cmp.Diff(c.want, measure(t, c.e, text).All, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestBands(t *testing.T) {
	r := measure(t, fixed([3]float32{1, 0, 0}, 1), "44 1 1 1 1 1 1 1\n444444 -1 0 0 -1000 0 0 0\n4444441 -1 0 0 -1000 0 0 0\n9x5x4:- 0 0 0 0 0 0 0 0 0\n")
	var got []string
	for _, b := range r.Bands {
		got = append(got, fmt.Sprintf("%s: %d, %d critical", b.Name, b.Positions, b.Critical))
	}
	want := "seventh 1: 2, 0 critical; seventh 2: 2, 2 critical"
	if strings.Join(got, "; ") != want || r.All.Positions != 4 {
		t.Errorf("%v, want %s", got, want)
	}
	if c := r.Bands[0].CriticalGood; c != (score.Mean{}) {
		t.Errorf("a rate over no position is %+v, want zero", c)
	}
	if b := r.Boards; len(b) != 2 || b[0].Name != "7x6x4" || b[0].Positions != 3 || b[1].Name != "9x5x4" || b[1].Positions != 1 || b[1].ValueSign.Value != 0 {
		t.Errorf("by board: %+v", b)
	}
	r = measure(t, fixed([3]float32{1, 0, 0}, 1), "44 1 1 1 1 1 1 1\n444444 -1 0 0 -1000 0 0 0\n")
	if r.Bands[0].Name != "plies 0-5" || r.Bands[1].Name != "plies 6-11" || len(r.Boards) != 1 || r.Boards[0].Name != "7x6x4" {
		t.Errorf("of one board: %+v", r)
	}
}

func TestReadBothForms(t *testing.T) {
	a, err := score.Read(strings.NewReader("\ufeff4444445 -1 0 0 -1000 0 0 0"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := score.Read(strings.NewReader(`{"line":1,"position":"4444445","score":0,"scores":[-1,0,0,null,0,0,0],"nodes":5}`))
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(a[0].Scores) != fmt.Sprint(b[0].Scores) || a[0].State.Position != b[0].State.Position {
		t.Errorf("%+v, from JSON %+v", a, b)
	}
}

// The value has the right sign if W - L is above 0 in a win and below 0 in a loss. 0 is neither, and draws do not count.
func TestDecisiveSign(t *testing.T) {
	const won, drawn, lost = "44 1 0 0 0 0 0 0\n", "4444445 -1 0 0 -1000 0 0 0\n", "33 -1 -2 -2 -2 -2 -2 -2\n"
	for _, c := range []struct {
		wdl            [3]float32
		text           string
		found, decided int
	}{
		{[3]float32{0.3, 0.5, 0.2}, won + drawn + lost, 1, 2},
		{[3]float32{0.2, 0.5, 0.3}, won + won + won + drawn + lost, 1, 4},
		{[3]float32{0.4, 0.2, 0.4}, won + drawn + lost, 0, 2},
		{[3]float32{1, 0, 0}, drawn, 0, 0},
	} {
		all := measure(t, fixed(c.wdl, 1), c.text).All
		want := float64(c.found) / float64(max(1, c.decided))
		if all.Decisive != c.decided || all.DecisiveSign.Value != want {
			t.Errorf("WDL %v: %v of %d positions, want %v of %d", c.wdl, all.DecisiveSign, all.Decisive, want, c.decided)
		}
	}
}

// kaggle is a line of Kaggle's format: the position after 4444445, whose column 4 is full.
const kaggle = `{"board": [0,0,0,2,0,0,0, 0,0,0,1,0,0,0, 0,0,0,2,0,0,0, 0,0,0,1,0,0,0, 0,0,0,2,0,0,0, 0,0,0,1,1,0,0], "score": 2, "move score": [-1, 0, 0, -99, 0, 2, 0]}`

func TestReadKaggle(t *testing.T) {
	a, err := score.Read(strings.NewReader(kaggle + "\n4444445 -1 0 0 -1000 0 2 0"))
	if err != nil {
		t.Fatal(err)
	}
	a[1].Line = 1
	if fmt.Sprint(a[0]) != fmt.Sprint(a[1]) {
		t.Errorf("from Kaggle's format %+v, from text %+v", a[0], a[1])
	}
}

func TestReadKaggleErrors(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"[0,0,0,2", "[0,0,2", `board has 41 cells, and in Kaggle's format it has 42, those of 7x6x4`},
		{"[0,0,0,2", "[0,0,0,0,2", `board has 43 cells`},
		{"0,0,0,1,1,0,0]", "0,0,0,2,1,0,0]", `board "7x6x4": 3 stones of player 1, 4 stones of player 2, and player 2 is to move: no game reaches this`},
		{"[0,0,0,2", "[0,0,0,7", `board[3] "7": must be 0, 1 or 2`},
		{"[0,0,0,2", "[1,0,0,2", `board[0] "1": floats`},
		{"[0,0,0,2", `["0",0,0,2`, `board "string": must be a whole number: the cells row by row`},
		{`"score": 2, `, "", `json has a board without its score`},
		{`"score": 2`, `"score": null`, `json has a board without its score`},
		{`"score": 2`, `"score": 3`, `score is 3, but the best move score is 2: one of them is wrong`},
		{`"score": 2`, `"score": 0.5`, `score "number 0.5": must be a whole number`},
		{`"move score"`, `"moves"`, `move score has 0 numbers, and must have 7, one for each column`},
		{`[-1, 0, `, `[0, `, `move score has 6 numbers`},
		{`[-1, 0`, `[-99, 0`, `move score 1 is -99, as of a full column, but column 1 can be played`},
		{`-99`, `0`, `move score 4 is 0, but column 4 cannot be played: it must be -99`},
		{`-99`, `null`, `move score 4 is null, not a whole number`},
		{`[-1, 0`, `[-43, 0`, `move 1 has score -43, out of range`},
		{`"score"`, `"board": [], "score"`, `json "{\"board\": [0,0,0,2,0,0,0, 0,0,0,1,0,0,0,"..: key "board" is there twice`},
	} {
		_, err := score.Read(strings.NewReader("# c\n" + strings.Replace(kaggle, c.old, c.new, 1)))
		if !strings.HasPrefix(fmt.Sprint(err), "line 2: "+c.want) {
			t.Errorf("%s in place of %s: error %v, want %s", c.new, c.old, err, c.want)
		}
	}
}

func readUnsolved(text string) ([]score.Position, error) {
	r := score.NewReader(strings.NewReader(text), score.Place{})
	r.Unsolved = true
	return r.All()
}

// Lines with the score of the position are read only where they are asked for, and not mixed with others. A board with one
// move has no difference between the two.
func TestReadUnsolved(t *testing.T) {
	ps, err := readUnsolved("# c\n44 2\n1x4x4:1 -3\n")
	if err != nil || len(ps) != 2 || ps[0].Scores != nil || ps[0].Score != 2 || ps[0].Line != 2 || ps[1].Scores != nil || ps[1].Score != -3 || ps[1].Line != 3 {
		t.Errorf("%+v, error %v", ps, err)
	}
	if ps, err := readUnsolved("1x4x4:1 -3\n44 1 1 1 1 1 1 1\n"); err != nil || len(ps[0].Scores) != 1 || len(ps[1].Scores) != 7 {
		t.Errorf("%+v, error %v", ps, err)
	}
	for in, want := range map[string]string{
		"44 1 1 1 1 1 1 1\n44 1":         "line 2: has 1 scores, but 7x6x4 has 7 moves",
		"44 1\n44 1 1 1 1 1 1 1":         "line 2: has 7 scores, but the lines before it have 1, that of the position: make a file of each kind",
		"44 1\n44":                       "line 2: has 0 scores, but the lines before it have 1, that of the position: make a file of each kind",
		"44":                             "line 1: has 0 scores, but 7x6x4 has 7 moves",
		"44 43":                          "line 1: score 43 is out of range",
		"44 1.5":                         `line 1: score 1 is "1.5", not a whole number`,
		"1212121 1":                      "line 1: the game is over (loss), there is no move to score",
		`{"position":"44","scores":[1]}`: "line 1: has 1 scores, but 7x6x4 has 7 moves",
	} {
		if _, err := readUnsolved(in); fmt.Sprint(err) != want {
			t.Errorf("%q: error %v, want %s", in, err, want)
		}
	}
}

func TestReadErrors(t *testing.T) {
	const sealed = "# head; crc32 c59067a5\n44 1 1 1 1 1 1 1\n"
	if _, err := score.Read(strings.NewReader(sealed)); err != nil || string(score.Seal("# head", []byte("44 1 1 1 1 1 1 1\n"))) != sealed {
		t.Errorf("a file with its checksum: %v", err)
	}
	const changed = "is damaged: the checksum of its lines is %s, but it states \"%s\": make it again, or, if you have changed it yourself, remove the checksum from its first line"
	for in, want := range map[string]string{
		"44 1":                                   "line 1: has 1 score, that of the position, but the score of each move is needed: evald solve --scores finds it",
		"44 1 2 3":                               "line 1: has 3 scores, but 7x6x4 has 7 moves",
		"\n44 1 x 3":                             `line 2: score 2 is "x", not a whole number`,
		"48 1 1 1 1 1 1 1":                       `line 1: moves "48": move 2 is "8", not one of 1 to 7`,
		"444444 1 1 1 1 1 1 1":                   "line 1: move 4 has score 1, but can be played: false",
		"44 1 1 1 -1000 1 1 1":                   "line 1: move 4 has score -1000, but can be played: true",
		"44 1 1 1 99 1 1 1":                      "line 1: move 4 has score 99, out of range",
		"1212121 1 1 1 1 1 1 1":                  "line 1: the game is over (loss), there is no move to score",
		`{"position":"4","position":"5"}`:        `line 1: json "{\"position\":\"4\",\"position\":\"5\"}": key "position" is there twice`,
		`{"position":"44"}`:                      "line 1: json has no scores; evald solve writes them with --scores",
		`{"position":`:                           `line 1: json "{\"position\":": unexpected end of JSON input`,
		strings.Replace(sealed, "1\n", "2\n", 1): fmt.Sprintf(changed, "eebd3466", "c59067a5"),
		strings.TrimSpace(sealed):                fmt.Sprintf(changed, "25366b94", "c59067a5"),
		"# head; crc32 ":                         fmt.Sprintf(changed, "00000000", ""),
		strings.Repeat("1", 100000):              "line 1: bufio.Scanner: token too long",
	} {
		if _, err := score.Read(strings.NewReader(in)); fmt.Sprint(err) != want {
			t.Errorf("Read(%.20q): error %v, want %s", in, err, want)
		}
	}
}

func TestEvaluatorFails(t *testing.T) {
	ps, err := score.Read(strings.NewReader("44 1 1 1 1 1 1 1"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := score.Measure(ctx, fixed([3]float32{}), ps, nil); err == nil {
		t.Error("no error of a cancelled evaluation")
	}
}

func FuzzRead(f *testing.F) {
	f.Add("44 1 1 1 1 1 1 1\n")
	f.Add(`{"position":"4444445","scores":[-1,0,0,null,0,0,0]}`)
	f.Add(kaggle)
	f.Add("44 1\n444 -2\n")
	f.Fuzz(func(t *testing.T, text string) {
		ps, err := readUnsolved(text)
		if err != nil || len(ps) == 0 {
			return
		}
		if ps[0].Scores == nil {
			if _, err := score.Read(strings.NewReader(text)); err == nil {
				t.Error("positions without scores of moves are accepted where these are needed")
			}
			return
		}
		if _, err := score.Measure(t.Context(), evaltest.Raw(&evaltest.Stub{}), ps, nil); err != nil {
			t.Fatal(err)
		}
	})
}
