package main

import (
	"errors"
	"fmt"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/nn/train"
)

// lesson is a game of a run of training, and the records of it; nil with --task gameover.
type lesson struct {
	board   *game.Board
	files   []string
	records *train.Records
}

// lessons are the games of a run, in the order of --rules.
type lessons []lesson

// close closes the records.
func (l lessons) close() (err error) {
	for _, one := range l {
		if one.records != nil {
			err = errors.Join(err, one.records.Close())
		}
	}
	return err
}

// sum adds a number up over the games that have records.
func (l lessons) sum(of func(*train.Records) int64) (n int64) {
	for _, one := range l {
		if one.records != nil {
			n += of(one.records)
		}
	}
	return n
}

func (l lessons) rows() int64 { return l.sum((*train.Records).Rows) }

func (l lessons) heldOut() int64 {
	return l.sum(func(r *train.Records) int64 {
		if r.HeldOut() == nil {
			return 0
		}
		return r.HeldOut().Rows()
	})
}

func (l lessons) ignored() int64 {
	return l.sum(func(r *train.Records) int64 { return r.Ignored })
}

// lessons opens the records of each game of --rules. The caller must close them.
func (c *trainCmd) lessons(games game.Mix) (all lessons, err error) {
	for _, part := range games {
		board, err := game.NewBoard(part.Rules)
		if err != nil {
			return nil, err
		}
		all = append(all, lesson{board: board})
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, all.close())
		}
	}()
	if c.Task == "gameover" {
		return all, nil
	}
	if err := c.share(all); err != nil {
		return all, err
	}
	for i := range all {
		if len(all[i].files) == 0 {
			return all, fmt.Errorf("--rules %s: no file has records of %v: give some, or leave the game out", c.Rules, all[i].board.Rules())
		}
		if all[i].records, err = c.records(all[i].board, all[i].files); err != nil {
			return all, err
		}
	}
	return all, nil
}

// share gives each file to the game of its first record. If there is one game, all are said to be of it, and are checked when they are read.
func (c *trainCmd) share(all lessons) error {
	for _, file := range c.Files {
		if err := c.checkKind(file); err != nil {
			return err
		}
		of := 0
		if len(all) > 1 {
			rules, err := c.rulesOf(file)
			if err != nil {
				return err
			}
			for of < len(all) && all[of].board.Rules() != rules {
				of++
			}
			if of == len(all) {
				return fmt.Errorf("%s: is of %v, and --rules is %s: leave the file out, or give the game a share", file, rules, c.Rules)
			}
		}
		all[of].files = append(all[of].files, file)
	}
	return nil
}

// rulesOf are the rules of a file's first record.
func (c *trainCmd) rulesOf(file string) (rules game.Rules, err error) {
	var r interface {
		Next(*record.Record) error
		Close() error
	}
	if c.Task == "exact" {
		r, err = record.OpenSolved(file)
	} else {
		r, err = record.Open(file)
	}
	if err != nil {
		return rules, err
	}
	var first record.Record
	if err := errors.Join(r.Next(&first), r.Close()); err != nil {
		return rules, fmt.Errorf("%s: its first record: %w", file, err)
	}
	return first.Rules, nil
}
