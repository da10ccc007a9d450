/** Words that the simulated model knows as one token each, with and without a leading space. Order is part of the vocabulary. */
const TEXT = `
the of and to in is that for it as was with be by on not he his but at are this have from or had an they which one you
were all her she there would their we him been has when who will no more if out so said what up its about into than them
can only other new some could time these two may then do first any my now such like our over man me even most made after
also did many before must through back years where much your way well down should because each just those people how too
little state good very make world still own see men work long get here between both life being under never day same
another know while last might us great old year off come since against go came right used take three
request prefill decode token tokens cache block blocks prefix instance engine router proxy model prompt output input
stream latency queue batch step memory bandwidth compute transfer handoff connector lease remote local hash parent
eviction event sequence replay gap restart throughput percentile average first chunk server client header body status
network address port socket message publish subscribe schedule policy health metric counter gauge histogram bucket
layer attention head weight matrix kernel device host worker rank parallel tensor pipeline expert context window length
answer question example reason result value number function method system design simple small large fast slow short
start stop open close read write send receive keep hold drop move copy share split merge count measure compare explain
because therefore however although instead between during without within across along around behind below beyond
language text word sentence paragraph summary story code data table list item key name type field object array string
user assistant system helpful concise careful please write describe tell show give find help need want think believe
morning evening river mountain city garden window door house road bridge market school letter music color light water
green blue red white black silver golden quiet bright warm cold early late often always sometimes usually perhaps maybe
one two three four five six seven eight nine ten hundred thousand million half quarter double
consider notice observe reduce increase improve balance limit reach cross follow lead turn point line path graph node
edge tree root leaf branch cost price budget trade choice option default setting flag error warning failure retry
timeout deadline abort cancel resume pause ready busy idle full empty hot cold warm miss hit local global
`;

export const WORDS: readonly string[] = [...new Set(TEXT.split(/\s+/u).filter((word) => word !== ''))];
