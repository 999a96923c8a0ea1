package web

import (
	"github.com/evald/evald/cmd/evald/internal/answer"
	"github.com/evald/evald/engine/game"
)

type (
	moveSeen     = answer.MoveSeen
	ended        = answer.Ended
	gameState    = answer.GameState
	reviewed     = answer.Reviewed
	reviewedMove = answer.ReviewedMove
	explained    = answer.Explained
	valued       = answer.Valued

	// playedCounts is answer.Played.
	playedCounts struct {
		Games               uint64
		Wins, Draws, Losses uint32
	}
)

const maxBody = answer.UsualBody

var (
	canonical     = answer.Canonical
	parsePosition = answer.ParsePosition
)

// parseOngoing returns the position after the moves.
func parseOngoing(text string) (*game.Board, game.Position, error) {
	b, moves, err := answer.ParsePosition(text)
	if err != nil {
		return nil, game.Position{}, err
	}
	return b, b.PlayMoves(moves), nil
}

// proof is the text of a proved result.
func proof(r game.Result) string {
	if r == game.Ongoing {
		return ""
	}
	return r.String()
}
