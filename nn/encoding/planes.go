package encoding

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// features are the terms of planes. The package documentation defines them.
var features = []string{"own", "other", "first", "second", "empty", "playable", "ones", "player", "parity", "inarow"}

const (
	fOwn = iota
	fOther
	fFirst
	fSecond
	fEmpty
	fPlayable
	fOnes
	fPlayer
	fParity
	fInARow
	fCount
)

// plane has the factor of each feature.
type plane [fCount]float64

// maxPlane is the maximum length of a plane's text in bytes.
const maxPlane = 200

// parsePlane parses a sum such as 0.5*ones+0.5*player: terms with signs, each a feature, a number, or a number times a feature.
func parsePlane(text string) (p plane, err error) {
	wrong := func(why string) (plane, error) {
		return p, fieldError("planes", text, why+": want a sum such as own-other or 0.5*ones+0.5*player of "+strings.Join(features, ", "))
	}
	if len(text) > maxPlane {
		return wrong("the text is too long")
	}
	rest := strings.ReplaceAll(text, " ", "")
	if rest == "" {
		return wrong("there is no term")
	}
	if rest[0] != '-' && rest[0] != '+' {
		rest = "+" + rest
	}
	for rest != "" {
		sign := 1.
		if rest[0] == '-' {
			sign = -1
		}
		end := termEnd(rest[1:]) + 1
		term := rest[1:end]
		rest = rest[end:]
		factor := 1.
		name := term
		if at := slices.Index(features, term); at < 0 {
			number, feature, product := strings.Cut(term, "*")
			if name = feature; !product {
				name = "ones"
			}
			if factor, err = strconv.ParseFloat(number, 64); err != nil || !(math.Abs(factor) <= 1e6) {
				return wrong("the part " + strconv.Quote(term) + " is not a term")
			}
		}
		at := slices.Index(features, name)
		if at < 0 {
			return wrong("the part " + strconv.Quote(term) + " is not a term")
		}
		p[at] += sign * factor
	}
	return p, nil
}

// termEnd returns the length of a text's first term, which ends before a sign that does not belong to an exponent.
func termEnd(text string) int {
	for i := range len(text) {
		if sign := text[i] == '+' || text[i] == '-'; sign && i == 0 {
			return 0 // an empty term, which is invalid
		} else if sign && !(text[i-1] == 'e' && i > 1 && (text[i-2] >= '0' && text[i-2] <= '9' || text[i-2] == '.')) {
			return i
		}
	}
	return len(text)
}

// String returns a sum in the format of parsePlane.
func (p plane) String() string {
	var b strings.Builder
	for i, factor := range p {
		if factor == 0 {
			continue
		}
		switch {
		case factor < 0:
			b.WriteByte('-')
		case b.Len() > 0:
			b.WriteByte('+')
		}
		if size := math.Abs(factor); size != 1 {
			b.WriteString(strconv.FormatFloat(size, 'g', -1, 64) + "*")
		}
		b.WriteString(features[i])
	}
	if b.Len() == 0 {
		return "0"
	}
	return b.String()
}

// swapped returns the plane with the sides exchanged.
func (p plane) swapped() plane {
	p[fOwn], p[fOther] = p[fOther], p[fOwn]
	p[fFirst], p[fSecond] = p[fSecond], p[fFirst]
	return p
}

// relative returns the plane with own and other in place of first and second, and the reverse.
func (p plane) relative() plane {
	p[fOwn], p[fFirst] = p[fFirst], p[fOwn]
	p[fOther], p[fSecond] = p[fSecond], p[fOther]
	return p
}

// quartered reports whether a quarter of inarow is in the plane. Its author probably means a
// quarter of the number in a row, which inarow is.
func (p plane) quartered() bool { return math.Abs(p[fInARow]) == 0.25 }

// unquartered returns the plane with inarow in place of a quarter of it.
func (p plane) unquartered() plane {
	if p.quartered() {
		p[fInARow] *= 4
	}
	return p
}

// whole reports whether all values of the plane are integers.
func (p plane) whole() bool {
	return p[fInARow] == 0 && !slices.ContainsFunc(p[:], func(x float64) bool { return x != math.Trunc(x) })
}

// truth reports whether all values of the plane are 0 or 1. It returns true only for single features.
func (p plane) truth() bool {
	terms := 0
	for _, factor := range p {
		if factor != 0 {
			terms++
		}
		if factor != 0 && factor != 1 {
			return false
		}
	}
	return terms <= 1 && p[fInARow] == 0
}

// size returns an upper bound of the absolute values of the plane.
func (p plane) size() (sum float64) {
	for _, factor := range p {
		sum += math.Abs(factor)
	}
	return sum
}
