package plot

import (
	"fmt"
	"image/color"
	"io"
	"unicode/utf8"

	"github.com/evald/evald/engine/arena"
)

// Sizes in pixels.
const (
	cellWidth, cellHeight = 74, 44
	charWidth             = 7.4 // width of a character of a name; an upper bound
	margin                = 20
	headHeight            = 74 // title and column heads
	footHeight            = 46
	eloWidth              = 110
)

// CrossTable draws the score of each player against each other player as a coloured table, sorted by rating: blue if the row's player won
// more, orange if it lost more.
func CrossTable(w io.Writer, title string, t arena.Table) error {
	type pairing struct{ row, column string }
	met := map[pairing]arena.Meeting{}
	for _, m := range t.Meetings {
		met[pairing{m.A, m.B}] = m
		met[pairing{m.B, m.A}] = arena.Meeting{Games: m.Games, Wins: m.Losses, Draws: m.Draws, Losses: m.Wins, Score: 1 - m.Score}
	}
	longest := 0
	for _, p := range t.Standings {
		longest = max(longest, utf8.RuneCountInString(p.Player))
	}
	n := len(t.Standings)
	left := margin + 44 + int(charWidth*float64(longest))
	note := "% of the row's points against the column's player; below, wins – draws – losses. Elo with its 95% interval."
	width := max(left+n*cellWidth+eloWidth+margin, 2*margin+int(6.2*float64(len(note))))
	height := headHeight + n*cellHeight + footHeight

	var s picture
	s.begin(width, height)
	s.text(margin, 30, `font-size="16" font-weight="bold"`, title)
	for i, p := range t.Standings {
		s.text(left+i*cellWidth+cellWidth/2, headHeight-10, `text-anchor="middle" fill="#555"`, fmt.Sprint(p.Rank))
		y := headHeight + i*cellHeight
		s.text(margin+20, y+cellHeight/2+5, `text-anchor="end" fill="#555"`, fmt.Sprint(p.Rank))
		s.text(margin+30, y+cellHeight/2+5, ``, p.Player)
		elo, interval := p.Rating()
		s.text(left+n*cellWidth+eloWidth-8, y+cellHeight/2+5, `text-anchor="end"`, elo+" "+interval)
		for j, q := range t.Standings {
			s.cell(left+j*cellWidth, y, met[pairing{p.Player, q.Player}])
		}
	}
	s.text(left+n*cellWidth+eloWidth-8, headHeight-10, `text-anchor="end" fill="#555"`, "Elo")
	s.text(margin, height-18, `font-size="12" fill="#555"`, note)
	return s.end(w)
}

func (s *picture) cell(x, y int, m arena.Meeting) {
	fill := color.RGBA{236, 236, 236, 255}
	if m.Games > 0 {
		fill = shade(m.Score)
	}
	s.printf(`<rect x="%d" y="%d" width="%d" height="%d" fill="%s" stroke="white"/>`, x, y, cellWidth, cellHeight, hex(fill))
	if m.Games > 0 {
		s.text(x+cellWidth/2, y+20, `text-anchor="middle" font-weight="bold"`, fmt.Sprintf("%.1f", 100*m.Score))
		s.text(x+cellWidth/2, y+36, `text-anchor="middle" font-size="11" fill="#333"`, fmt.Sprintf("%d–%d–%d", m.Wins, m.Draws, m.Losses))
	}
}

// shade returns white for an even score, and a colour of curves towards 0 and 1, light enough for dark numbers on it.
func shade(score float64) color.RGBA {
	end, strength := colours[0], 2*score-1
	if strength < 0 {
		end, strength = colours[1], -strength
	}
	const strongest = 0.7
	mix := func(c uint8) uint8 { return uint8(255 + strongest*strength*(float64(c)-255)) }
	return color.RGBA{mix(end.R), mix(end.G), mix(end.B), 255}
}
