// Judges one history of a register (docs/histories.md, the JSON-lines format) with Porcupine and prints one JSON object:
// for comparison only.
//
//	porcupine-bench FILE SECONDS
//
// A failed cas did not happen and is left out; what never returned may take effect at any later time; a question that was
// never answered says nothing.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/anishathalye/porcupine"
)

type line struct {
	Type    string          `json:"type"`
	F       string          `json:"f"`
	Process int             `json:"process"`
	Value   json.RawMessage `json:"value"`
}

type input struct {
	kind     int // 0 read, 1 write, 2 cas
	from, to int
}

type output struct {
	value   int
	unknown bool
}

const unset = math.MinInt

var model = porcupine.Model{
	Init: func() interface{} { return unset },
	Step: func(state, in, out interface{}) (bool, interface{}) {
		now, ask, answer := state.(int), in.(input), out.(output)
		switch ask.kind {
		case 0:
			return answer.unknown || answer.value == now, now
		case 1:
			return true, ask.to
		}
		if now == ask.from {
			return true, ask.to
		}
		return answer.unknown, now
	},
}

func cpu() float64 {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

// read pairs the lines of a file; places of lines are the times.
func read(file *os.File) []porcupine.Operation {
	var operations []porcupine.Operation
	open := map[int]int{}
	dropped := map[int]bool{}
	lines := bufio.NewScanner(file)
	for at := int64(0); lines.Scan(); at++ {
		var one line
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			panic(err)
		}
		if one.Type == "invoke" {
			ask := input{}
			switch one.F {
			case "write":
				ask.kind, ask.to = 1, number(one.Value)
			case "cas":
				var pair [2]int
				if err := json.Unmarshal(one.Value, &pair); err != nil {
					panic(err)
				}
				ask = input{2, pair[0], pair[1]}
			}
			open[one.Process] = len(operations)
			operations = append(operations, porcupine.Operation{
				ClientId: one.Process, Input: ask, Call: at, Output: output{unset, true}, Return: math.MaxInt64,
			})
			continue
		}
		place := open[one.Process]
		operation := &operations[place]
		switch one.Type {
		case "ok":
			operation.Output, operation.Return = output{value: number(one.Value)}, at
			if operation.Input.(input).kind != 0 {
				operation.Output = output{value: unset}
			}
		case "fail":
			dropped[place] = true
		}
	}
	kept := operations[:0]
	for place, one := range operations {
		asked := one.Input.(input).kind == 0 && one.Output.(output).unknown
		if !dropped[place] && !asked {
			kept = append(kept, one)
		}
	}
	return kept
}

// number is a value, unset for null; of a cas that succeeded, which answers with its pair, nothing.
func number(value json.RawMessage) int {
	var found *int
	if err := json.Unmarshal(value, &found); err != nil || found == nil {
		return unset
	}
	return *found
}

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	seconds, err := strconv.ParseFloat(os.Args[2], 64)
	if err != nil {
		panic(err)
	}
	operations := read(file)
	began, used := time.Now(), cpu()
	// The bound is CPU time, so that a busy machine gives it as much as an idle one.
	answers := make(chan porcupine.CheckResult, 1)
	go func() { answers <- porcupine.CheckOperationsTimeout(model, operations, 0) }()
	found, waiting := porcupine.Unknown, true
	for waiting && cpu()-used < seconds {
		select {
		case found = <-answers:
			waiting = false
		case <-time.After(20 * time.Millisecond):
		}
	}
	took, spent := time.Since(began).Seconds(), cpu()-used
	word := map[porcupine.CheckResult]string{porcupine.Ok: "pass", porcupine.Illegal: "fail", porcupine.Unknown: "unknown"}[found]
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	fmt.Printf("{\"outcome\":%q,\"check_s\":%f,\"wall_s\":%f,\"whole_s\":%f,\"peak_mb\":%f}\n", word, min(took, spent), took, cpu(), float64(usage.Maxrss)/1024)
}
