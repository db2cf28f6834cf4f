// A Go program that prints trace lines: tell is all that an implementation needs of it.
//
//	go run trace.go | dethrone doctor --lines -
package main

import (
	"encoding/json"
	"log"
	"os"
	"sync"
)

var telling sync.Mutex

// tell prints one line. One lock around reading the term and printing keeps lines in the order of what they tell.
func tell(event string, more map[string]any) {
	telling.Lock()
	defer telling.Unlock()
	more["dethrone"], more["event"] = 1, event
	line, err := json.Marshal(more)
	if err != nil {
		log.Fatal(err)
	}
	os.Stdout.Write(append(line, '\n')) // one write, not buffered: a killed process leaves no half line
}

func main() {
	tell("recovered", map[string]any{"term": 0, "voted_for": nil, "file": "absent"})
	tell("term_changed", map[string]any{"term": 1})                            // stored, and before acting in it
	tell("vote_granted", map[string]any{"term": 1, "candidate": "n1"})         // stored, and before the answer leaves
	tell("elected", map[string]any{"term": 1, "voters": []string{"n1", "n2"}}) // before the first entry leaves
	tell("appended", map[string]any{"entries": [][]any{{1, 1, "9f86d081"}}})
	tell("committed", map[string]any{"term": 1, "index": 1})
	tell("stepped_down", map[string]any{"term": 1})
}
