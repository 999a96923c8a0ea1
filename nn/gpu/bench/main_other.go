//go:build !linux

package main

import "log"

func main() { log.Fatal("GPUs are supported on Linux alone") }
