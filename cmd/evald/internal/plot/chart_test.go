package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/score"
	"github.com/evald/evald/nn/learn"
)

// Ticks stand at round numbers, and there are at most as many as asked for.
func TestMarks(t *testing.T) {
	for _, c := range []struct {
		min, max float64
		most     int
		want     string
	}{
		{0, 100, 6, "0 20 40 60 80 100"},
		{0, 1, 6, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{-0.3, 2.7, 6, "0 1 2"},
		{0.0312, 0.0518, 6, "0.035 0.040 0.045 0.050"},
		{-40, 1200, 6, "0 500 1000"},
		{7, 7, 6, "6.0 6.5 7.0 7.5 8.0"},
	} {
		a := axis{}
		a.cover([]float64{c.min, c.max})
		var labels []string
		for _, m := range a.marks(c.most) {
			labels = append(labels, m.labels...)
		}
		if got := strings.Join(labels, " "); got != c.want {
			t.Errorf("%g to %g: %s, want %s", c.min, c.max, got, c.want)
		}
	}
}

// A picture is XML, names its curves, and draws every point inside its frame.
func TestLearningPicture(t *testing.T) {
	var generations []learn.Generation
	for n := range 30 {
		g := learn.Generation{Number: n, Elo: float64(10 * n), EloError: 5, Promoted: n%2 == 0}
		a := learn.Accuracy{Kind: learn.AllKinds}
		a.Good, a.Perfect = score.Mean{Value: 0.5, Low: 0.4, High: 0.6}, score.Mean{Value: 0.3, Low: 0.2, High: 0.4}
		g.Accuracy = []learn.Accuracy{a}
		generations = append(generations, g)
	}
	var picture bytes.Buffer
	gametest.OK(t, Learning(&picture, "a <run>", generations))
	var texts []string
	circles := 0
	for d := xml.NewDecoder(&picture); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		gametest.OK(t, err)
		switch token := token.(type) {
		case xml.CharData:
			texts = append(texts, string(token))
		case xml.StartElement:
			if token.Name.Local == "circle" {
				circles++
			}
		}
	}
	for _, want := range []string{"a <run>", "policy, good moves", "policy, perfect moves", "rating", "promoted", "generation", "28"} {
		if !slices.Contains(texts, want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
	if want := 30*3 + 15 + 4; circles != want { // with those of the legends
		t.Errorf("%d points are drawn, want %d", circles, want)
	}
}
