//go:build !js

package play

import (
	"fmt"
	"strings"

	"github.com/evald/evald/engine/game"
)

// parting returns the summary that stays on the terminal after a game: the players, the result, the moves, the command that continues the
// game, and its address on the page of evald serve. It is "" if no move was made.
func (c *Config) parting(s *Session) string {
	if len(s.Moves()) == 0 {
		return ""
	}
	first, second := c.Players[s.seat[0]], c.Players[s.seat[1]]
	rules := s.board.Rules()
	position := rules.String() + ":" + game.FormatMoves(rules, s.Moves())
	state := s.outcome()
	if state == "" {
		state = letters[s.Side():s.Side()+1] + " to move"
	}
	return fmt.Sprintf("%v: X %s, O %s; %s\nmoves    %s\ngo on    evald play%s --position %s\npage     http://127.0.0.1:8000/#%s, while evald serve runs\n",
		rules, first.Name, second.Name, state, game.FormatNotation(rules, s.Moves()), c.flags(s), position, position)
}

func (c *Config) save(s *Session) error {
	if c.Save == nil {
		return nil
	}
	return c.Save(s.Moves(), c.Players[s.seat[0]], c.Players[s.seat[1]])
}

// flags returns the flags of evald play that continue the game with the same players.
func (c *Config) flags(s *Session) (flags string) {
	side := map[[2]bool]string{{true, false}: "first", {false, true}: "second", {true, true}: "both", {false, false}: "none"}[[2]bool{s.human[s.seat[0]], s.human[s.seat[1]]}]
	if side != "first" {
		flags = " --side " + side
	}
	for _, seat := range s.seat {
		if !s.human[seat] {
			flags += " --agent " + quoted(c.Players[seat].Name)
		}
	}
	for _, f := range c.Flags {
		flags += " " + quoted(f)
	}
	return flags
}

// quoted quotes text for a POSIX shell if necessary.
func quoted(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_=:,./@+%", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
