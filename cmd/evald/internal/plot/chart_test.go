package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/score"
	"github.com/evald/evald/nn/learn"
)

// Ticks are at round numbers, and at most the requested number.
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

// A picture is XML with one background. The names of its curves stand beside its frames, each on a line of its own.
func TestLearningPicture(t *testing.T) {
	var generations []learn.Generation
	for n := range 30 {
		g := learn.Generation{Number: n, Elo: float64(10 * n), EloError: 5, Promoted: n%2 == 0}
		for _, a := range []learn.Accuracy{{}, {Visits: 100}, {Visits: 100, Solver: true}} {
			if n < 5 && a.Solver {
				continue // as in generations of an older version
			}
			a.Kind = learn.AllKinds
			a.Good, a.Perfect = score.Mean{Value: 0.6, Low: 0.4, High: 0.6}, score.Mean{Value: 0.59, Low: 0.2, High: 0.6}
			g.Accuracy = append(g.Accuracy, a)
		}
		generations = append(generations, g)
	}
	var picture bytes.Buffer
	gametest.OK(t, Learning(&picture, "a <run>", generations))
	type element struct {
		XMLName xml.Name
		X       float64 `xml:"x,attr"`
		Y       float64 `xml:"y,attr"`
		CX      float64 `xml:"cx,attr"`
		Text    string  `xml:",chardata"`
	}
	var svg struct {
		Width    int       `xml:"width,attr"`
		Height   int       `xml:"height,attr"`
		Elements []element `xml:",any"`
	}
	if strings.Count(picture.String(), "font-family") != 1 || strings.Count(picture.String(), "<rect ") != 1 {
		t.Errorf("more than one font or background: %.500s", picture.String())
	}
	gametest.OK(t, xml.Unmarshal(picture.Bytes(), &svg))
	rows := map[string]element{}
	circles, beside := 0, 0
	for _, e := range svg.Elements {
		rows[e.Text] = e
		if e.XMLName.Local == "circle" {
			circles++
			if e.CX > leftOf+frameWidth {
				beside++
			}
		}
	}
	if want := 30*5 + 25*2 + 15; circles != want+8 || beside != 8 { // with those of the names
		t.Errorf("%d points are drawn, %d of them beside the frames, want %d and 8", circles, beside, want+8)
	}
	last := float64(above) // under the title
	for _, name := range []string{
		"policy, good moves", "100 visits, no solver, good moves", "100 visits, good moves",
		"policy, perfect moves", "100 visits, no solver, perfect moves", "100 visits, perfect moves", "rating", "promoted",
	} {
		at, ok := rows[name]
		if !ok || at.X < leftOf+frameWidth || at.X+charWidth*float64(len(name)) > float64(svg.Width) || at.Y < last+lineHeight || at.Y > float64(svg.Height) {
			t.Errorf("%q is at %g, %g of %d, %d, after %g", name, at.X, at.Y, svg.Width, svg.Height, last)
		}
		last = at.Y
	}
	for _, want := range []string{"a <run>", "generation", "28"} {
		if _, ok := rows[want]; !ok {
			t.Errorf("the picture does not say %q", want)
		}
	}
}

// A run of several games has curves of each, whose names stand beside the frames, one under the other. What one chart has no room for is
// in another one.
func TestLearningPictureOfGames(t *testing.T) {
	var generations []learn.Generation
	for n := range 3 {
		g := learn.Generation{Number: n}
		for _, visits := range []int{0, 100} {
			for game := range most + 1 {
				a := learn.Accuracy{Rules: fmt.Sprintf("%dx4x4", game+4), Kind: learn.AllKinds, Visits: visits}
				a.Good = score.Mean{Value: 0.6, Low: 0.4, High: 0.7}
				g.Accuracy = append(g.Accuracy, a)
			}
			g.Accuracy = append(g.Accuracy, learn.Accuracy{Kind: learn.AllKinds, Visits: visits})
		}
		generations = append(generations, g)
	}
	var picture bytes.Buffer
	gametest.OK(t, Learning(&picture, "games", generations))
	names := regexp.MustCompile(`y="(\d+)"[^>]*>(\d+x4x4)<`).FindAllStringSubmatch(picture.String(), -1)
	if len(names) != 2*(most+1) || strings.Count(picture.String(), "% good moves, ") != 4 {
		t.Fatalf("the names %v, %s", names, picture.String())
	}
	taken := map[int]bool{}
	for _, name := range names {
		y := gametest.Must(strconv.Atoi(name[1]))(t)
		for near := y - lineHeight/2; near < y+lineHeight/2; near++ {
			if taken[near] {
				t.Errorf("the name %s, at %d, overlaps another one", name[2], y)
			}
			taken[near] = true
		}
	}
}

// A report of several games has a panel for each, with a name, below the number in a row that it shares with its neighbours.
func TestPanels(t *testing.T) {
	var r score.Report
	for _, text := range []string{"7x6x4", "4x4x3", "4x4x4free", "5x4x4", "6x6x5", "4x4x4", "6x5x4", "5x5x4", "6x6x4"} {
		rules := gametest.Must(game.ParseRules(text))(t)
		half := score.Mean{Value: 0.5, Low: 0.4, High: 0.6}
		s := score.Summary{Name: text, Positions: 3, Good: half, Perfect: half}
		r.Boards = append(r.Boards, score.Board{Summary: s, Rules: rules, Bands: []score.Summary{s, s}, Sevenths: []int{2, 7}})
	}
	var picture bytes.Buffer
	gametest.OK(t, Accuracy(&picture, "a <model>", r))
	var names []string
	for _, m := range regexp.MustCompile(`>(\w+) \(3\)<|>(\d in a row)<`).FindAllStringSubmatch(picture.String(), -1) {
		names = append(names, m[1]+m[2])
	}
	want := "3 in a row, 4x4x3, 4 in a row, 4x4x4, 5x4x4, 5x5x4, 6x5x4, 6x6x4, 7x6x4, 4x4x4free, 5 in a row, 6x6x5"
	if got := strings.Join(names, ", "); got != want {
		t.Errorf("the panels are %s, want %s", got, want)
	}
	// Two rates of two bands each, and no dot for rates that there are not.
	if n := strings.Count(picture.String(), "<circle "); n != 9*2*2 {
		t.Errorf("%d dots", n)
	}
	var svg struct {
		Height int `xml:"height,attr"`
		Frames []struct {
			Y      int `xml:"y,attr"`
			Height int `xml:"height,attr"`
		} `xml:"rect"`
	}
	gametest.OK(t, xml.Unmarshal(picture.Bytes(), &svg))
	for _, f := range svg.Frames {
		if f.Y+f.Height > svg.Height {
			t.Errorf("a frame ends at %d of %d", f.Y+f.Height, svg.Height)
		}
	}
}
