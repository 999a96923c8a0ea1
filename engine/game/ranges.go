package game

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Range is a set of games: each of columns, rows and stones in a row lies between two bounds, inclusive.
type Range struct {
	Columns, Rows, InARow [2]int
	Gravity               bool
}

// Contains reports whether a game is in the range.
func (r Range) Contains(g Rules) bool {
	in := func(n int, bounds [2]int) bool { return bounds[0] <= n && n <= bounds[1] }
	return g.Gravity == r.Gravity && in(g.Columns, r.Columns) && in(g.Rows, r.Rows) && in(g.InARow, r.InARow)
}

// String returns the rules with a number, or two with a dash, in each place: "3-12x3-13x3-6", "7x6x4", "3-6x3-6x3free".
func (r Range) String() string {
	var places []string
	for _, bounds := range [][2]int{r.Columns, r.Rows, r.InARow} {
		place := strconv.Itoa(bounds[0])
		if bounds[0] != bounds[1] {
			place += "-" + strconv.Itoa(bounds[1])
		}
		places = append(places, place)
	}
	s := strings.Join(places, "x")
	if !r.Gravity {
		s += freeSuffix
	}
	return s
}

// Ranges is the union of several ranges.
type Ranges []Range

// Strings returns the ranges in the form of ParseRanges.
func (r Ranges) Strings() []string {
	texts := make([]string, len(r))
	for i, one := range r {
		texts[i] = one.String()
	}
	return texts
}

// Contains reports whether a game is in one of the ranges.
func (r Ranges) Contains(g Rules) bool {
	return slices.ContainsFunc(r, func(one Range) bool { return one.Contains(g) })
}

// ParseRanges parses texts in the form of Range.String.
func ParseRanges(texts []string) (all Ranges, err error) {
	for _, text := range texts {
		body, free := strings.CutSuffix(text, freeSuffix)
		r := Range{Gravity: !free}
		places := strings.Split(body, "x")
		bounds := []*[2]int{&r.Columns, &r.Rows, &r.InARow}
		if len(places) != len(bounds) {
			return nil, &ParseError{Field: "range", Value: text, Reason: "want columns x rows x in-a-row, a number or two in each place, such as 3-12x3-13x3-6"}
		}
		for i, place := range places {
			least, most, two := strings.Cut(place, "-")
			if !two {
				most = least
			}
			for n, number := range []string{least, most} {
				v, err := strconv.Atoi(number)
				if err != nil || v < 1 || v > MaxBits || number[0] == '+' {
					return nil, &ParseError{Field: "range", Value: text, Reason: fmt.Sprintf("%s must be a number of 1 to %d, or two with a dash", quote(place), MaxBits)}
				}
				bounds[i][n] = v
			}
			if bounds[i][0] > bounds[i][1] {
				return nil, &ParseError{Field: "range", Value: text, Reason: fmt.Sprintf("%s: the first number must not be above the second", quote(place))}
			}
		}
		all = append(all, r)
	}
	return all, nil
}
