package claimmodel

// Without switches rules of the protocol off. Its zero value is the protocol
// with all of them. A test takes out one at a time and wants to see a history in
// which that loses a job, hides one, or runs one again for no reason.
type Without struct {
	// The head of each script.
	Numbers        bool // a call that was done already is done again
	LastNumber     bool // the number is written before the rest of the call, not after it
	ExactNumber    bool // a call is done although Redis has forgotten the call before it
	Generations    bool // resync leaves the generation as it is, so that late calls are not refused
	FencedHead     bool // a call is done although the place is fenced
	WriteBeforeAll bool // a script begins with a read, which under OOM has all that follows refused
	LastingTTL     bool // a script begins with PERSIST place, which takes the TTL from a tombstone

	// Claims and moves.
	NameBeforeMove   bool // a claim is named after jobs were moved into it
	LengthBeforeDel  bool // a whole claim is deleted whatever its length is
	WaitingByBytes   bool // a waiting list is deleted if its length is what the owner knows
	AbsentIsWritten  bool // what is not in the list any more was moved earlier, so nothing is written
	DestinationFirst bool // the list is left before the destination is written
	OneCallAtATime   bool // a call is sent while another one is on its way

	// Effects.
	PushesFirst       bool // the list is left before what the move pushes is written
	PushesTakenBack   bool // of several pushes of a move those before a refused one stay
	LocksTakenBack    bool // the locks of pushes that are taken back stay
	StayIsRemembered  bool // a stay whose lost reply was resolved is repeated
	RefusedStayFails  bool // a refused stay writes its number, and says so in its reply
	EffectsBehindHead bool // what a call pushes enters before the place is looked at
	DoneIsWrittenBack bool // a job that is done and has effects is not written back: its list tells that a refused move was done
	LockBehindMove    bool // the lock of a job is freed before its move, which may be refused
	LockOfOthers      bool // the lock of a job is freed whoever holds it

	// Limits.
	HeldByList        bool // an ask whose reply is lost is taken for one that has let its job in
	HeldBeforeLeft    bool // a job that cannot be held leaves its list all the same
	HeldLeaves        bool // a job that is let in stays among those that are held
	BehindHeld        bool // who asks takes the room of those that are held
	LetInFirst        bool // who asks lets nobody in that is held
	LetInAtLeave      bool // a job that leaves lets nobody in
	LeaderLooks       bool // the leader lets nobody in when a slot has ended by itself
	SlotIsKnown       bool // a job that has a slot needs another one
	SlotLeaves        bool // a job that is moved leaves its slot behind
	SlotOutlivesLease bool // a slot lives no longer than from beat to beat
	OldAnswer         bool // a job starts however old the answer of its limit is
	BeatOnlyRenews    bool // a beat gives a slot to a job that has none
	ForgottenIsTaken  bool // a run whose slot Redis has forgotten does not take it again
	RequeueKeepsSlot  bool // the slot of a job that is requeued as its process stops ends at once
	GivenUpKeepsSlot  bool // the slot of a job that is given up ends at once, and its handler goes on

	// Batches and results.
	CountedInStep      bool // a job is counted when its owner hears that it is settled
	CountBehindMove    bool // a job is counted before its move, which may be refused
	CountedByBit       bool // a job that runs twice is counted twice
	KnownIsCounted     bool // a job is counted though Redis has forgotten that it entered the batch
	RetryIsNoEnd       bool // a job that is to be retried is counted
	OpenStays          bool // the callback enters while the batch is open
	CallbackBeforeMark bool // the callback is marked before it is pushed
	FiredIsMarked      bool // the callback is not marked
	ResultBehindHead   bool // a result is written before the place is looked at
	RetryKeepsNone     bool // a job that is to be retried keeps an end

	// Resync.
	ResyncAfterLoss      bool // a lost reply means that the call was not done
	LostMeansDone        bool // a lost reply means that the call was done
	AskedByNumber        bool // after a resync the doubtful call was done, whatever the number says
	AllAfterRollback     bool // lists of the length in hand are not read after a rollback either
	ListsTellRefused     bool // a doubtful move whose number is there was done, even if its destination refused it
	CertainFirst         bool // of equal bytes in a list, the ones that were to be moved are found first
	LateAnswerIsNone     bool // the reply to a resync ends a doubt that came up after the resync was sent
	DoneIsOdd            bool // a call whose number is there already has lists of the length in hand not read
	CompareIsKept        bool // a resync forgets which lists the one before it wanted read
	NeverAckUnknown      bool // what is there and was in hand once is acked by resync
	WriteBack            bool // what is in hand and not there is not written back
	NewGenerationEach    bool // a repeated resync asks for the same generation
	StrangersAreFences   bool // a generation that nobody here has asked for is taken over
	RegisteredByResync   bool // a place that is made again is not registered again
	RegistryInSlot       bool // Cluster: the registry of all places is in one slot
	RegistryNewName      bool // the registry has the name that rescuers of the old layout know
	NumberOutlivesResync bool // resync writes the number of the doubtful call
	NumbersNeverGoBack   bool // after a rollback the owner goes on with the number that Redis has
	UnreadableGoesBack   bool // what cannot be read is asked for again and again
	GapIsNoticed         bool // Cluster: a renewal that arrives after the lease ended prolongs it as if nothing had been

	// Waiting lists.
	NamedWhileOpen     bool // a waiting list is named when its first job has been read
	NamedOnConnection  bool // a connection made anew waits without having the list named again
	CompareAtBeat      bool // a waiting list is compared after an abnormal end only, not at each beat
	CompareBetween     bool // a waiting list is compared while a wait is open
	EchoRule           bool // jobs are given back to a queue that a wait of our own is open on
	CloseAtRescue      bool // a rescuer deletes a waiting list
	CloseAtLeave       bool // an owner that leaves deletes a waiting list although a wait was not answered
	CloseInOneStep     bool // a rescuer empties a waiting list in one script and closes it in another
	DeleteAtCleanLeave bool // an owner that leaves closes all waiting lists

	// Leases and rescue.
	LeaseAtFence       bool // a rescuer fences without looking at the lease
	LeaseAtStart       bool // a job starts whatever the age of the lease
	LeaseFromSending   bool // the age of the lease counts from the reply
	LargerClock        bool // the age of the lease is what the monotonic clock says
	LeaseMadeAgain     bool // a lease that Redis has forgotten is not made again
	Tombstone          bool // a rescuer deletes the place, so that late calls find none
	TombstoneFirst     bool // a rescuer empties the lists before it fences
	RegistryAfterLists bool // a rescuer takes an owner out of the registry when it fences it
	TTLAfterLists      bool // a rescuer gives the place its TTL when it fences it
	RescueInOneStep    bool // a rescuer moves a job out of its list, and then into the queue
}
