package cluster

import (
	"fmt"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/selfplay"
)

const (
	parcelGames = 256       // maximum number of games in a message
	parcelBytes = 256 << 10 // maximum size of a message's games without the last; servers accept messages of 1 MB
	mostParcel  = 768 << 10 // maximum size of a message in bytes: the largest possible game, 128 positions with 128 moves each and their policies, takes less than 512 KB
	leastPly    = 64        // minimum size of a position in bytes, as JSON
	mostNested  = 8         // maximum nesting of objects and lists
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

// read parses a message. It rejects messages that would take far more memory or time than those of workers.
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

// elements returns upper bounds on the numbers of games and positions in a message, and how deeply its objects and lists are nested,
// without decoding it. Values of lists in the message's object count as games, values of lists in objects of these lists as positions.
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
