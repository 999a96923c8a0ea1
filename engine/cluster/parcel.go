package cluster

import (
	"fmt"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/selfplay"
)

const (
	parcelGames = 256       // of a message at most
	parcelBytes = 256 << 10 // of its games but the last; servers take messages of 1 MB
	parcelPlies = parcelGames * game.MaxBits
	mostParcel  = 512 << 10 // bytes of a message at most: the greatest game, of 128 positions with 128 moves each, takes less than 256 KB
)

// parcel is a message with games.
type parcel struct {
	Version    string          `json:"version"`
	Worker     string          `json:"worker"`
	Run        string          `json:"run"`
	Generation int             `json:"generation"`
	Settings   string          `json:"settings"`
	Games      []selfplay.Game `json:"games"`

	reply reply
}

// read reads a message. It is not read if it would take much more memory than a message of a worker's.
func (p *parcel) read(text []byte) {
	games, plies := elements(text)
	switch {
	case len(text) > mostParcel:
		p.reply.Refused = fmt.Sprintf("the message has %d bytes, want %d at most", len(text), mostParcel)
	case games > parcelGames:
		p.reply.Refused = fmt.Sprintf("the message has %d games, want %d at most", games, parcelGames)
	case plies > parcelPlies:
		p.reply.Refused = fmt.Sprintf("the message has games of %d positions, want %d at most", plies, parcelPlies)
	default:
		if err := game.DecodeJSON(text, p); err != nil {
			p.reply.Refused = err.Error()
		}
	}
}

// elements are how many games and positions a message has, or more, counted without decoding it: the values of the lists in
// the message's object, and of the lists in objects of those.
func elements(text []byte) (games, plies int) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			if c == '[' && depth == 2 {
				games++
			}
			if c == '[' && depth == 4 {
				plies++
			}
		case c == '}' || c == ']':
			depth--
		case c == ',' && depth == 2:
			games++
		case c == ',' && depth == 4:
			plies++
		}
	}
	return games, plies
}
