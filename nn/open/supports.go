package open

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// This file decides what happens with games that a network does not support.

// elsewhere limits the network to some games. Others are an error or, with Options.Substitute,
// AnyModel answers them, and bitsquares those outside its range.
func (o *Opened) elsewhere(games []game.Rules, options Options) (err error) {
	o.Games = games
	if !options.Substitute {
		o.limit(func(b *game.Board) (games string) {
			if slices.Contains(o.Games, b.Rules()) {
				return ""
			}
			return list(o.Games)
		})
		return nil
	}
	if o.any, err = newAny(options); err != nil {
		return err
	}
	o.Evaluator = evaluator(trained{o.Backend(), o.any, games})
	o.How += "; network " + AnyModel + " on boards of " + strings.Join(o.any.ranges.Strings(), " and ") + ", bitsquares on others"
	return nil
}

// list lists the games that a network supports, for errors.
func list(games []game.Rules) string {
	names := make([]string, len(games))
	for i, r := range games {
		names[i] = r.String()
	}
	return strings.Join(names, ", ") + map[bool]string{true: " alone"}[len(games) == 1]
}

// limit makes boards an *eval.UnsupportedError for which knows returns a text, which says what the
// network supports.
func (o *Opened) limit(knows func(*game.Board) string) {
	o.Evaluator = evaluator(limited{o.Backend(), func(b *game.Board) error {
		games := knows(b)
		if games == "" {
			return nil
		}
		instead := "name another, or none, and " + eval.Bitsquares.String() + " answers"
		if ships := Shipped(b.Rules()); ships != eval.Bitsquares.String() {
			instead = fmt.Sprintf("name another, such as %s (--model %[1]s, model=%[1]s), or none, and evald chooses", ships)
		}
		return &eval.UnsupportedError{Model: o.Model, Rules: b.Rules(), Games: games, Instead: instead}
	}})
}

// limited is a network that refuses boards which it does not support.
type limited struct {
	eval.Backend
	supports func(*game.Board) error
}

// Attributes are those of the network, with the boards that it supports.
func (l limited) Attributes() eval.Attributes {
	a := l.Backend.Attributes()
	a.Supports = l.supports
	return a
}

// Compute implements eval.Backend.
func (l limited) Compute(ctx context.Context, b *eval.Batch) error {
	if err := l.supports(b.Board); err != nil {
		return err
	}
	return l.Backend.Compute(ctx, b)
}

// trained answers the games on which the network was trained with the network, and all others with
// another backend.
type trained struct {
	network, other eval.Backend
	games          []game.Rules // on which the network was trained
}

func (t trained) Attributes() eval.Attributes { return t.network.Attributes() }

func (t trained) Compute(ctx context.Context, b *eval.Batch) error {
	if !slices.Contains(t.games, b.Board.Rules()) {
		return t.other.Compute(ctx, b)
	}
	return t.network.Compute(ctx, b)
}
