package plot

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/evald/evald/engine/score"
)

// Sizes in pixels of the pictures with a panel for each game.
const (
	panelWidth, panelHeight = 132, 84
	panelGap                = 18 // space between panels
	panelName               = 20 // for the name above a panel
	panelRow                = 6  // number of panels in a row
	groupName               = 34 // for the heading of the games with the same number in a row
	panelLeft               = 56 // for the numbers of the y axis
)

// panels draws a small panel for each game of a report, with the rates over the sevenths of the game's plies. Games are grouped by the number
// in a row that wins. All panels have the same axes.
func panels(w io.Writer, title string, r score.Report) error {
	boards := slices.SortedFunc(slices.Values(r.Boards), func(a, b score.Board) int { return score.CompareRules(a.Rules, b.Rules) })
	low := lowest(boards)
	x := func(left int, seventh float64) float64 { return float64(left) + panelWidth*(seventh-0.5)/7 }
	y := func(top int, rate float64) float64 { return float64(top) + panelHeight*(1-rate)/(1-low) }

	var body picture // the height of the whole picture is known at the end
	top, column := above+lineHeight*4+8, 0
	for i, b := range boards {
		if i == 0 || boards[i-1].Rules.InARow != b.Rules.InARow {
			if column > 0 {
				top += panelName + panelHeight + panelGap
			}
			column = 0
			body.text(panelLeft, top+groupName-14, `font-size="15" font-weight="bold"`, fmt.Sprintf("%d in a row", b.Rules.InARow))
			top += groupName
		} else if column == panelRow {
			top, column = top+panelName+panelHeight+panelGap, 0
		}
		left, frame := panelLeft+column*(panelWidth+panelGap), top+panelName
		body.text(left, frame-6, ``, fmt.Sprintf("%s (%d)", b.Name, b.Positions))
		for _, rate := range ticksFrom(low) {
			body.line(float64(left), y(frame, rate), float64(left+panelWidth), y(frame, rate), `stroke="#ddd"`)
			if column == 0 {
				body.text(left-6, int(y(frame, rate))+4, `font-size="11" text-anchor="end"`, fmt.Sprintf("%.0f%%", 100*rate))
			}
		}
		body.printf(`<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#222" stroke-width="0.6"/>`, left, frame, panelWidth, panelHeight)
		for k, rate := range rates {
			c := curve{colour: colours[k], dots: noDots}
			for n, band := range b.Bands {
				if value, ok := rate.of(band); ok {
					c.points = append(c.points, exact(x(left, float64(b.Sevenths[n])), y(frame, value.Value)))
				}
			}
			c.small(&body)
		}
		column++
	}
	height := top + panelName + panelHeight + panelGap

	var p picture
	p.printf(`<?xml version="1.0" encoding="UTF-8"?>`)
	width := panelLeft + panelRow*(panelWidth+panelGap)
	p.begin(max(width, panelLeft+int(charWidth*float64(utf8.RuneCountInString(title)))), height)
	p.text(panelLeft, above+lineHeight, `font-size="15" font-weight="bold"`, title)
	p.text(panelLeft, above+2*lineHeight, ``, fmt.Sprintf("%d positions of %d games: %.1f%% good moves, %.1f%% perfect. From left to right, the sevenths of a game's plies.",
		r.All.Positions, len(boards), 100*r.All.Good.Value, 100*r.All.Perfect.Value))
	at := panelLeft
	for k, rate := range rates {
		line := float64(above + 3*lineHeight - 4)
		p.line(float64(at), line, float64(at+26), line, `stroke-width="2" stroke="`+hex(colours[k])+`"`)
		p.text(at+34, int(line)+4, ``, rate.name)
		at += 34 + int(charWidth*float64(len(rate.name))) + panelGap
	}
	p.Write(body.Bytes())
	return p.end(w)
}

// lowest returns the rate at the lower edge of all panels: a multiple of 0.1, at most 0.9.
func lowest(boards []score.Board) float64 {
	low := 0.9
	for _, b := range boards {
		for _, band := range b.Bands {
			for _, rate := range rates {
				if value, ok := rate.of(band); ok {
					low = min(low, math.Floor(10*value.Value)/10)
				}
			}
		}
	}
	return low
}

// ticksFrom returns the rates with grid lines, from low to 1.
func ticksFrom(low float64) (ticks []float64) {
	step := 0.1
	if low < 0.5 {
		step = 0.25
	}
	for rate := 1.; rate > low-1e-9; rate -= step {
		ticks = append(ticks, rate)
	}
	return ticks
}

// small draws a curve of points in pixels.
func (c curve) small(p *picture) {
	var points strings.Builder
	for _, at := range c.points {
		fmt.Fprintf(&points, "%.1f,%.1f ", at.x, at.y)
	}
	p.printf(`<polyline fill="none" stroke-width="1.4" stroke="%s" points="%s"/>`, hex(c.colour), points.String())
	for _, at := range c.points {
		p.printf(`<circle cx="%.1f" cy="%.1f" r="1.8" fill="%s"/>`, at.x, at.y, hex(c.colour))
	}
}
