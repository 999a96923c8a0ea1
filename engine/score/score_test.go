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
	// Wilson's intervals of 0.5, 1 and 2 in 2.
	quarter, half, whole := mean(0.25, 0.02667734, 0.80213254), mean(0.5, 0.09453121, 0.90546879), mean(1, 0.34238023, 1)
	const z = 1.959963984540054
	for name, c := range map[string]struct {
		e    *eval.Evaluator
		want score.Summary
	}{
		"column 3": {fixed([3]float32{0.5, 0.3, 0.2}, 0, 0, 1, 0, 0, 0, 0), score.Summary{
			Perfect: half, Good: whole, Regret: mean(1, 1-z, 1+z), ValueSign: half,
			// (0.5-1)^2 + 0.3^2 + 0.2^2 = 0.38 and 0.5^2 + 0.7^2 + 0.2^2 = 0.78
			Brier: mean(0.58, 0.58-0.2*z, 0.58+0.2*z), CriticalPerfect: half, CriticalGood: whole,
		}},
		// The first position shares 1 and 0; in the second, column 4 is full.
		"columns 1 and 4 alike": {fixed([3]float32{0.5, 0.5, 0}, 0.5, 0, 0, 0.5, 0, 0, 0), score.Summary{
			Perfect: quarter, Good: quarter, Regret: mean(2.25, 2.25-1.25*z, 2.25+1.25*z),
			ValueSign: half, Brier: mean(0.5, 0.5, 0.5), CriticalPerfect: quarter, CriticalGood: quarter,
		}},
	} {
		c.want.Name, c.want.Positions, c.want.Critical = "all", 2, 2
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
	want := "plies 0-5: 2, 0 critical; plies 6-11: 2, 2 critical"
	if strings.Join(got, "; ") != want || r.All.Positions != 4 {
		t.Errorf("%v, want %s", got, want)
	}
	if c := r.Bands[0].CriticalGood; c != (score.Mean{}) {
		t.Errorf("a rate over no position is %+v, want zero", c)
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

func TestReadErrors(t *testing.T) {
	const sealed = "# head; crc32 c59067a5\n44 1 1 1 1 1 1 1\n"
	if _, err := score.Read(strings.NewReader(sealed)); err != nil || string(score.Seal("# head", []byte("44 1 1 1 1 1 1 1\n"))) != sealed {
		t.Errorf("a file with its checksum: %v", err)
	}
	const changed = "is damaged: the checksum of its lines is %s, and it says \"%s\": make it again, or, if you have changed it yourself, remove the checksum from its first line"
	for in, want := range map[string]string{
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
	f.Fuzz(func(t *testing.T, text string) {
		ps, err := score.Read(strings.NewReader(text))
		if err != nil {
			return
		}
		if _, err := score.Measure(t.Context(), evaltest.Raw(&evaltest.Stub{}), ps, nil); err != nil {
			t.Fatal(err)
		}
	})
}
