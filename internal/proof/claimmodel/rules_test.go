package claimmodel

// firstSeen is the first history that shows the lack of each rule: so many have
// to be played to find it.
var firstSeen = map[string]int{
	"Numbers":              308,
	"LastNumber":           14220,
	"ExactNumber":          2047,
	"Generations":          208,
	"FencedHead":           53,
	"WriteBeforeAll":       32,
	"LastingTTL":           2,
	"NameBeforeMove":       632,
	"AbsentIsWritten":      740,
	"DestinationFirst":     296,
	"OneCallAtATime":       21,
	"ResyncAfterLoss":      1,
	"LostMeansDone":        1,
	"AskedByNumber":        21,
	"ListsTellRefused":     23221,
	"CertainFirst":         105760,
	"NamedWhileOpen":       81,
	"LeaseMadeAgain":       1,
	"LateAnswerIsNone":     12399,
	"OwedIsKept":           336,
	"NeverAckUnknown":      1724,
	"WriteBack":            959,
	"NewGenerationEach":    13810,
	"StrangersAreFences":   3710,
	"RegisteredByResync":   28,
	"RegistryInSlot":       51,
	"RegistryNewName":      23,
	"NumberOutlivesResync": 95,
	"UnreadableGoesBack":   6,
	"GapIsNoticed":         392,
	"NamedOnConnection":    1115,
	"CompareAtBeat":        242,
	"CompareBetween":       1,
	"EchoRule":             68,
	"CloseAtRescue":        2653,
	"CloseAtLeave":         8691,
	"CloseInOneStep":       5274,
	"DeleteAtCleanLeave":   9,
	"LeaseAtFence":         1,
	"LeaseAtStart":         9,
	"LeaseFromSending":     13,
	"LargerClock":          117,
	"Tombstone":            13,
	"TombstoneFirst":       77,
	"RegistryAfterLists":   5,
	"TTLAfterLists":        79,
	"RescueInOneStep":      13,
}

// spare are rules whose lack shows in none of 100,000 histories, since others
// cover them. They cost next to nothing and are kept against what the model does
// not have: hands that write into our keys, defects of our own.
var spare = map[string]string{
	"LengthBeforeDel":    "a claim changes in numbered calls only, and \"!\" is compared with what is known exactly",
	"WaitingByBytes":     "a waiting list is compared after each wait that was not answered, before the next one",
	"AllAfterRollback":   "a claim has a name that is never used again and only shrinks, so one of the same length is the same; waiting lists are always read",
	"DoneIsOdd":          "matters to clones only: one in 82,000 histories",
	"NumbersNeverGoBack": "a name used again names a list that is known",
}
