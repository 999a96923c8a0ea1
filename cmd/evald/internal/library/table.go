package library

import (
	"fmt"
	"unsafe"
)

// argument is a number, a text or an array. In a call from C texts and arrays are addresses, which
// are numbers, too.
type argument struct {
	number int64
	text   *string
	array  *array
}

// at is the address that a number is.
func (a *argument) at() unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&a.number)) }

// arguments are those of a call. n, s, t and m take the next one: a number, a text, a text that its
// size follows, and an array. One that is missing is a panic, which Try makes a fault.
type arguments []argument

func (r *arguments) next() *argument { next := &(*r)[0]; *r = (*r)[1:]; return next }

func (r *arguments) n() int64 { return r.next().number }

func (r *arguments) s() string {
	a := r.next()
	if a.text != nil {
		return *a.text
	}
	size := 0
	for a.number != 0 && *(*byte)(unsafe.Add(a.at(), size)) != 0 {
		size++
	}
	return string(unsafe.Slice((*byte)(a.at()), size))
}

func (r *arguments) t() string {
	a, size := r.next(), r.n()
	if a.text != nil {
		return *a.text
	}
	text, err := Text(a.at(), size)
	if err != nil {
		panic(wrongMemory{err})
	}
	return text
}

func (r *arguments) m() Memory {
	if a := r.next(); a.array != nil {
		return a.array.memory()
	} else {
		return At(a.at())
	}
}

// MostArguments is the maximum number of a call's arguments.
const MostArguments = 16

// Call makes a call from C, whose arguments are followed by the address of memory for the text of an
// error, which it returns: nil if there is no such call.
func (c *Calls) Call(name string, all [MostArguments + 1]int64) (result int64, text unsafe.Pointer, err error) {
	r := make(arguments, len(all))
	for i, n := range all {
		r[i].number = n
	}
	if of, known := table[name]; known {
		text = r[of.count].at()
	}
	result, err = c.call(name, &r)
	return result, text, err
}

// call makes a call. Arguments that are missing, which a package of another version causes, are a
// fault.
func (c *Calls) call(name string, r *arguments) (int64, error) {
	of, ok := table[name]
	if !ok {
		return 0, fmt.Errorf("there is no call %q: the Python package and the program are of different versions", name)
	}
	return c.Try(func() (int64, error) { return of.make(c, r) })
}

// table has the calls by name. Each takes its arguments from the request in order.
var table = map[string]struct {
	count int // of its arguments
	make  func(c *Calls, r *arguments) (int64, error)
}{
	"about":      {2, func(c *Calls, r *arguments) (int64, error) { return c.About(r.m(), r.n()), nil }},
	"board":      {2, func(c *Calls, r *arguments) (int64, error) { return c.Board(r.s(), r.m()) }},
	"parse":      {5, func(c *Calls, r *arguments) (int64, error) { return 0, c.Parse(r.n(), r.n(), r.t(), r.m()) }},
	"check":      {3, func(c *Calls, r *arguments) (int64, error) { return 0, c.Check(r.n(), r.n(), r.m()) }},
	"from_cells": {5, func(c *Calls, r *arguments) (int64, error) { return 0, c.FromCells(r.n(), r.n(), r.m(), r.n(), r.m()) }},
	"cells":      {4, func(c *Calls, r *arguments) (int64, error) { return 0, c.Cells(r.n(), r.n(), r.m(), r.m()) }},
	"planes":     {5, func(c *Calls, r *arguments) (int64, error) { return 0, c.Planes(r.n(), r.n(), r.s(), r.m(), r.m()) }},
	"legal":      {4, func(c *Calls, r *arguments) (int64, error) { return 0, c.Legal(r.n(), r.n(), r.m(), r.m()) }},
	"results":    {4, func(c *Calls, r *arguments) (int64, error) { return 0, c.Results(r.n(), r.n(), r.m(), r.m()) }},
	"step": {7, func(c *Calls, r *arguments) (int64, error) {
		return 0, c.Step(r.n(), r.n(), r.m(), r.m(), r.m(), r.m(), r.n())
	}},
	"open":      {1, func(c *Calls, r *arguments) (int64, error) { return c.Open(r.s()) }},
	"evaluator": {3, func(c *Calls, r *arguments) (int64, error) { return c.Evaluator(r.n(), r.m(), r.n()) }},
	"close":     {1, func(c *Calls, r *arguments) (int64, error) { return 0, c.Close(r.n()) }},
	"evaluate": {8, func(c *Calls, r *arguments) (int64, error) {
		return 0, c.Evaluate(r.n(), r.n(), r.n(), r.m(), r.n(), r.m(), r.m(), r.m())
	}},
	"search": {15, func(c *Calls, r *arguments) (int64, error) {
		return c.Search(r.n(), r.n(), r.n(), r.m(), r.s(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m(), r.n(), r.m())
	}},
	"plant": {5, func(c *Calls, r *arguments) (int64, error) { return c.Plant(r.n(), r.n(), r.n(), r.m(), r.s()) }},
	"grow": {12, func(c *Calls, r *arguments) (int64, error) {
		return c.Grow(r.n(), r.n(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m(), r.n(), r.m())
	}},
	"grown":    {1, func(c *Calls, r *arguments) (int64, error) { return c.Grown(r.n()) }},
	"priors":   {2, func(c *Calls, r *arguments) (int64, error) { return 0, c.Priors(r.n(), r.m()) }},
	"advance":  {2, func(c *Calls, r *arguments) (int64, error) { return 0, c.Advance(r.n(), r.m()) }},
	"rule":     {5, func(c *Calls, r *arguments) (int64, error) { return c.Rule(r.n(), r.n(), r.s(), r.m(), r.n()) }},
	"solve":    {5, func(c *Calls, r *arguments) (int64, error) { return c.Solve(r.n(), r.n(), r.m(), r.s(), r.m()) }},
	"selfplay": {3, func(c *Calls, r *arguments) (int64, error) { return c.Play(r.n(), r.n(), r.s()) }},
	"match":    {2, func(c *Calls, r *arguments) (int64, error) { return c.Match(r.n(), r.s()) }},
	"result":   {3, func(c *Calls, r *arguments) (int64, error) { return c.Result(r.n(), r.m(), r.n()) }},
	"score": {6, func(c *Calls, r *arguments) (int64, error) {
		return c.Score(r.n(), r.n(), r.n(), r.m(), r.s(), r.m())
	}},
	"score_rules": {3, func(c *Calls, r *arguments) (int64, error) { return c.ScoreRules(r.s(), r.m(), r.n()) }},
	"write": {16, func(c *Calls, r *arguments) (int64, error) {
		return c.Write(r.n(), r.n(), r.s(), r.s(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m())
	}},
	"records": {3, func(c *Calls, r *arguments) (int64, error) { return c.Records(r.s(), r.m(), r.n()) }},
	"read": {16, func(c *Calls, r *arguments) (int64, error) {
		return c.Read(r.n(), r.n(), r.s(), r.n(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m())
	}},
	"wait": {3, func(c *Calls, r *arguments) (int64, error) {
		event, err := c.Wait(r.n(), r.n(), r.m())
		return int64(event), err
	}},
	"batch":  {3, func(c *Calls, r *arguments) (int64, error) { return 0, c.Batch(r.n(), r.n(), r.m()) }},
	"answer": {5, func(c *Calls, r *arguments) (int64, error) { return 0, c.Answer(r.n(), r.n(), r.m(), r.m(), r.s()) }},
	"game": {9, func(c *Calls, r *arguments) (int64, error) {
		return 0, c.Game(r.n(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m())
	}},
	"release": {1, func(c *Calls, r *arguments) (int64, error) { return 0, c.Release(r.n()) }},
}
