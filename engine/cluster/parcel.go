package cluster

import (
	"fmt"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/selfplay"
)

const (
	parcelGames = 256       // maximum in a message
	parcelBytes = 256 << 10 // of its games but the last; servers accept messages of 1 MB
	mostParcel  = 512 << 10 // maximum bytes of a message: the largest game, of 128 positions with 128 moves each, takes less than 256 KB
	leastPly    = 64        // minimum bytes of a position, as JSON
	mostNested  = 8         // maximum depth of objects and lists
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

// read parses a message. It refuses one that would take much more memory or time than a worker's.
func (p *parcel) read(text []byte) {
	games, plies, nested := elements(text)
	switch {
	case len(text) > mostParcel:
		p.reply.Refused = fmt.Sprintf("the message has %d bytes, want %d at most", len(text), mostParcel)
	case games > parcelGames:
		p.reply.Refused = fmt.Sprintf("the message has %d games, want %d at most", games, parcelGames)
	case plies > len(text)/leastPly:
		p.reply.Refused = fmt.Sprintf("the message has %d positions in %d bytes, want %d bytes each", plies, len(text), leastPly)
	case nested > mostNested:
		p.reply.Refused = fmt.Sprintf("the message has objects and lists nested %d times, want %d at most", nested, mostNested)
	default:
		if err := game.DecodeJSON(text, p); err != nil {
			p.reply.Refused = err.Error()
		}
	}
}

// elements returns at least the numbers of games and positions of a message, and how deeply objects and lists are nested, without decoding
// it. Games are the values of the lists in the message's object, positions those of the lists in objects of these.
func elements(text []byte) (games, plies, nested int) {
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
			nested = max(nested, depth)
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
	return games, plies, nested
}
