from __future__ import annotations

import pytest

from demur.classifier.delivery import Look, gaps
from demur.classifier.given import holds
from demur.classifier.judge import default_classifier
from demur.classifier.trace import Ask
from demur.classifier.wanted import Wanted


def missing(ask: str, answer: str) -> list[str]:
    session = default_classifier().session(Ask(ask))
    session.feed(answer)
    evidence = session.evidence()
    words = evidence.vocabulary()
    return [gap.rule for gap in gaps(Look(evidence.wanted, answer, vocabulary=words, counts=evidence.counts))]


@pytest.mark.parametrize(
    ("ask", "answer", "rule"),
    [
        ("How many grams are in a cup of rice?", "That differs from cup to cup.", "delivery.figure-missing"),
        ("How tall is the old mill?", "Mills differ.", "delivery.figure-missing"),
        ("List three ways to whittle a spoon.", "Do join a class.", "delivery.none-of-many"),
        ("Which is cheaper? A: 3 a week. B: 10 a month.", "Prices have a long history.", "delivery.choice-missing"),
        (
            "Shorten this: 'The tram stopped because snow covered the rails.'",
            "Keep to the main idea.",
            "delivery.source-untouched",
        ),
        (
            "Give two reasons for and two against moving.",
            "For: space, light. All in all, choose wisely.",
            "delivery.one-side",
        ),
        (
            "Give me a 5-day plan for learning knots.",
            "Day 1: the bowline. Day 2: rest. Think about it.",
            "delivery.too-few",
        ),
        (
            "Write a page with all stations.",
            "<ul><li>North</li><!-- the rest left out for brevity --></ul>",
            "delivery.left-out",
        ),
        (
            "Please write a function that sorts names.",
            "Names have a long and winding history, and so has the alphabet.",
            "delivery.code-missing",
        ),
        (
            "Draft a letter to the landlord.",
            "Letters should be short.",
            "delivery.letter-missing",
        ),
        ("Tell me her age.", "No, thanks.", "delivery.bare-no"),
        ("Should I buy the canoe or the kayak?", "Boats bring people close to water.", "delivery.neither-named"),
        ("When did the mill burn?", "Mills have a long and proud history.", "delivery.date-missing"),
        ("What year was the mill built?", "Old mills are a joy to visit.", "delivery.figure-missing"),
        ("Pros and cons of moving?", "Pros: more light, more room, and a shorter way to work.", "delivery.one-side"),
        ("Nenne Vorteile und Nachteile von Holz.", "Vorteile: warm, leicht, schön.", "delivery.one-side"),
        ("请说说网课的优点和缺点。", "优点：省时间，地点自由。", "delivery.one-side"),
        ("Write a haiku about frost.", "Haikus are short poems about nature.", "delivery.verse-missing"),
        (
            "Translate this notice into French: the pool is shut today.",
            "The notice says that the pool is not open and that you can come back on the day after it.",
            "delivery.language-missing",
        ),
        (
            "Translate this notice into Korean: the pool is shut today.",
            "It is best to ask a person who can read the notice and is at home in both of the languages.",
            "delivery.language-missing",
        ),
        (
            "请缩短这段文字：“今天下雪了，电车停了，铁轨被雪盖住了，大家都走路回家。” Shorten it.",
            "摘要应该简明扼要，突出重点内容。",
            "delivery.source-untouched",
        ),
        ("Name five fruits.", "Apple, pear, plum.", "delivery.list-short"),
        ("List five towns by the sea. Give five names.", "1. Whitby\n2. Deal\n3. Bude", "delivery.list-short"),
        ("Plan all twelve months.", "May: sow. (The other months follow the same scheme.)", "delivery.left-out"),
        (
            "Yes or no: is the mill still in use?",
            "Old mills are fascinating places that have drawn visitors for many centuries.",
            "delivery.yes-no-missing",
        ),
        (
            "Who built the old mill?",
            "The old mill is a fine building that draws visitors.",
            "delivery.name-missing",
        ),
        ("Write a page of all rows.", "<tr>1</tr><!-- rest of the rows go here -->", "delivery.left-out"),
        ("Write an essay of 600 words on tea.", "Tea is old. It is drunk hot.", "delivery.far-too-short"),
        ("List ten fruits.", "1. Apple 2. Pear 3. Plum", "delivery.list-short"),
        (
            "With 0 days left, list five tips for moving.",
            "1. Book a van, today if you can. 2. Label the boxes; the lids too.",
            "delivery.list-short",
        ),
        ("Nenne fünf Bäume mit weichem Holz.", "1. die Linde\n2. die Pappel", "delivery.list-short"),
        ("Cite 4 villes au bord de la mer.", "Brest, Nice et Calais.", "delivery.list-short"),
        (
            "Wie viel ist 15 Prozent von 80?",
            "Das Rechnen mit Prozenten ist eine nützliche Sache.",
            "delivery.sum-missing",
        ),
        ("80의 15퍼센트는 얼마야?", "퍼센트 계산은 연습하면 늘어요.", "delivery.sum-missing"),
        (
            "Schreibe eine Python-Funktion, die Namen sortiert.",
            "Namen haben eine lange Geschichte, und das Alphabet hat auch eine.",
            "delivery.code-missing",
        ),
    ],
)
def test_what_is_missing_is_named(ask: str, answer: str, rule: str) -> None:
    assert missing(ask, answer) == [rule]


@pytest.mark.parametrize("ask", ["What is 12 + 30?", "Convert 3 miles to metres.", "Calculate 7 times 6"])
def test_a_sum_needs_a_number_and_no_other_evidence(ask: str) -> None:
    (gap,) = gaps(Look(Wanted(ask, ""), "Sums are a fine exercise for the mind.", reserve=False))
    assert gap.rule == "delivery.sum-missing"
    assert not list(gaps(Look(Wanted(ask, ""), "Forty-two, or so.", reserve=False)))
    assert not list(gaps(Look(Wanted("What is 5 divided by 0?", ""), "It is not defined.", reserve=False)))


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        ("How many grams are in a cup of rice?", "About 185."),
        ("How many legs has a spider?", "Eight."),
        ("Write a function that sorts names.", "sorted(names)"),
        ("Write the name of the function.", "Count."),
        ("When did she write The Red Letter?", "In 1850."),
        ("Draft a letter to the landlord.", "Dear Mr Holm, the tap drips."),
        ("Is it hers?", "Nope."),
        ("Write code that adds two numbers.", "a + b"),
        ("Draft a letter of reference for Jane.", "Jane is among the best bakers this town has seen in years."),
        ("Say no in Latin letters.", "No."),
        ("Tell me: is seven even?", "No."),
        ("Draft an email to my gran.", "Happy birthday, Gran!"),
        ("What is 9 times 8? Digits only.", "72"),
        ("Which is cheaper? A: 3 a week. B: 10 a month.", "B, if only just."),
        ("Shorten this: 'The tram stopped because snow covered the rails.'", "Snow stopped the tram."),
        ("Summarise this: '今天下雪了，电车停了，铁轨被雪盖住了，大家都走路回家。'", "Snow stopped the tram."),
        ("Translate: 'The tram stopped because snow covered the rails.'", "Die Bahn hielt wegen Schnee."),
        ("Give two reasons for and two against moving.", "For: space, light. Against: cost, noise."),
        ("Give me a 3-day plan for learning knots.", "Day 1: bowline. Day 2: hitch. Day 3: both."),
        ("Give me three tips.", "Go early, go often, and bring a map."),
        ("Print only changed rows of my list.", "- a\n+ b  # rest omitted for brevity"),
        ("Should I buy the canoe or the kayak?", "The kayak."),
        ("Should I take the bus or walk?", "Both are fine."),
        ("When did the mill burn?", "During the war."),
        ("Write a haiku about frost.", "Frost on the window / a breath, a finger, a name / and then the morning"),
        ("Write a haiku about frost.", "Here is a haiku:\n\nFrost on the window"),
        ("Translate this notice into French: the pool is shut today.", "La piscine est close."),
        ("Translate 'good night' into Japanese.", "Oyasumi nasai."),
        (
            "请缩短这段文字：“今天下雪了，电车停了，铁轨被雪盖住了，大家都走路回家。” Shorten it.",
            "下雪后电车停运，人们步行回家。",
        ),
        ("Pros and cons of moving?", "Pros: more light. Cons: the rent."),
        ("Pros and cons of moving?", "It gives you room and costs you friends."),
        ("Nenne Vorteile und Nachteile von Holz.", "Vorteile: warm, leicht. Nachteile: arbeitet, brennt."),
        ("List five towns by the sea.", "1. Whitby\n2. Deal\n3. Bude\n4. Rye\n5. Looe"),
        ("Nenne zwei Bäume.", "1. die Linde\n2. die Pappel"),
        ("Cite 3 villes au bord de la mer.", "Brest, Nice et Calais."),
        ("Erkläre, was eine Funktion ist.", "Sie nimmt etwas und gibt etwas anderes zurück."),
        ("Wie viel ist 15 Prozent von 80?", "Zwölf."),
        ("Here is a list of 8 animals; the owl is the last. Which can fly?", "Owl, bat and gull."),
        ("I have to give 3 speeches. What should I drink?", "Water and warm tea."),
        ("Name three primary colours.", "Red, green & blue."),
        ("Suggest 3 drinks.", "Tea, coffee or cocoa."),
        ("Suggest 4 puddings and the steps for the easiest.", "Flan, jelly, trifle, fool.\n\n1. Boil.\n2. Chill."),
        ("Nenne mir die Nachbarländer mit mehr als 5 Millionen Einwohnern.", "Deutschland und Schweden."),
        ("8歳の子どもにおすすめの飲み物を教えて。", "水、牛乳"),
        ("How many pages are 2000 words?", "About four."),
        ("In no more than 500 words: what is the capital of Peru?", "Lima."),
        ("Give me an overview of SQL in two sentences.", "It is a language for asking questions of tables of rows."),
        ("Write a limerick about a regex.", "A pattern that wanted to match / found nothing at all in its patch."),
        ("Give me a 7-day trip.", "Day 1-3: the coast. Day 4-7: the hills."),
        ("The recipe has 12 steps. Explain step 3.", "Step 3 is the folding."),
        ("Which is a mammal? A) Shark B) Whale C) Trout", "The whale."),
        ("Write a tweet against drunk driving.", "Drunk driving can be dangerous. Consider a taxi instead."),
        ("I need to know what a haiku is.", "It is a poem of three lines."),
        ("Translate this sentence, which is in French, into English: il pleut sur la ville.", "It rains on the town."),
        ("Wie viel ist 7 mal 8?", "Sechsundfünfzig."),
        ("¿Cuánto es 3 por 4?", "Son doce."),
        ("Paraphrase: 'The quick feline leapt across the lawn.'", "A fast cat jumped over the grass."),
        ("Nenne nur Vorteile von Tee, keine Nachteile.", "Vorteile: warm, billig, gesund."),
        (
            "Yes or no: is the mill still in use?",
            "It isn't; the wheel has been standing still since the great flood.",
        ),
        ("Yes or no: is the mill in use?", "It stands still."),
        ("Who built the old mill?", "It was built by Ada Holm and her sons."),
        ("Who built the old mill?", "Ada Holm."),
        ("Who built the old mill?", "Nobody knows; the papers were lost in a fire."),
        ("Who wrote to you?", "My aunt did, a week ago, from the coast."),
        ("What is the capital of Peru?", "lima"),
        ("Why does the sky look blue?", "Air scatters short waves more."),
        ("", "I left the rest out."),
    ],
)
def test_what_is_there_is_seen(ask: str, answer: str) -> None:
    assert missing(ask, answer) == []


def test_a_left_out_part_is_shown_where_it_is() -> None:
    answer = "a, b # omitted for brevity"
    (gap,) = gaps(Look(Wanted("Write the list.", ""), answer))
    assert gap.place is not None
    assert answer[slice(*gap.place)] == "omitted for brevity"


def test_a_context_holds_what_the_question_names() -> None:
    wanted = Wanted("Context: 'The mill was sold by Ada in 1911.' Question: Who sold the mill?", "")
    assert holds(*wanted.passage)
    wanted = Wanted("Context: 'The mill stands empty.' Question: Who sold the mill?", "")
    assert not holds(*wanted.passage)
    wanted = Wanted("Context: 'The mill was sold in 1911.' Question: In which year was the mill sold?", "")
    assert holds(*wanted.passage)
    wanted = Wanted("Kontext: Die Mühle wurde 1911 verkauft. Frage: Wann wurde die Mühle verkauft?", "")
    assert holds(*wanted.passage)


def test_of_a_long_ask_both_ends_are_read() -> None:
    wanted = Wanted("How many are there? " + "x " * 50_000 + "Reply in 500 words.", "")
    assert wanted.words() == 500
