"""The tokeniser of the caption metrics: the tokens of pycocoevalcap's `PTBTokenizer` without Java.

BLEU, ROUGE-L and CIDEr depend on tokens, so captions must be cut exactly as for the published numbers:
`edu.stanford.nlp.process.PTBTokenizer -preserveLines -lowerCase` of Stanford CoreNLP 3.4.1, then a list of punctuation
is dropped. The rules below are our regular expressions, checked by probing that program.

How it works: at each place the longest match of all rules is taken, the first rule among equals; a rule may look beyond
    its token, and the characters it looked at count towards its length. Between blanks nothing depends on the
neighbours but for a few rules, so pieces are cut once and remembered.

Covered: words and accents, contractions (`can't` -> `ca n't`, `cannot` -> `can not`, `dog's` -> `dog 's`), words with
an inner or leading apostrophe (`o'clock`, `rock 'n' roll`, `'90s`), hyphens and slashes, numbers, mixed fractions (`3
1/2` is one token, its blank a no-break space), money, dates, telephone numbers, abbreviations and initials, URLs, file
names, e-mail, tags of markup, hashtags, handles, faces, quotes, brackets (`(` -> `-lrb-`), dots and dashes, the
entities of markup in any case (`&AMP;`, `&Nbsp;`, `&eacute;`), the Unicode classes of `ptb_characters`.

How equality was measured: the tokens are identical on every string of the annotation files that the tests read, 355,557
distinct ones (captions, questions, expressions and the files' other texts), and on `tests/metrics/ptb_golden.jsonl`.
Of 160,000 captions with a random sign or entity put into a word or around it, none differed; and none of 197,811 drawn
ones in mixed case, with characters from U+0080 to U+FFFF, entities in any case, and numbers and signs run together
(`tests/metrics/ptb_drawn.json`). Neither holds addresses: of 120,000 strings of addresses, tags, abbreviations and
escapes run together with signs and entities none differed. Other runs may: such tests found a few before each mend.

Not covered: entities in capitals right behind capitals (`BE&Apos;`, where the program reads a name, `BE&A`), entities
inside telephone numbers, quotes written as entities inside tags, and soft hyphens next to signs.

Known differences, all deliberate: the program reads a corpus as one text, so that a caption that ends in `no.` or in an
initial is cut differently when the next caption begins with a digit or a capital; here a caption is cut as if nothing
followed it, and no result depends on the order of the captions. A line separator other than a line feed would shift the
program's lines against the captions; here it is a blank.

Kept on purpose: `-lrb-` and `-rrb-` stay in (the list of punctuation has them in capitals), as do `!!`, `?!` and
`-----`.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from tellapart.metrics.ptb_characters import DIGITS, LETTERS, MARKS, SYMBOLS

__all__ = ["tokenize"]

_DROPPED = frozenset(("''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"))

# Abbreviations whose full stop is always theirs, and those that usually end something.
_TITLES = """
adj adm adv alex assoc asst atty ave brig capt cf cie cmdr col comdr cpl d dept det dr drs ens ft gen gov govs hon
insp jos lieut lt maj messrs mlle mme mr mrs ms msgr mt natl pfc ph pres prof pvt rep reps rev sen sens sfc sgt st
ste supt treas vs wm
"""
_ENDINGS = """
al ala apr ariz assn aug bhd bldg blvd bros calif co colo conn corp cos ct dak dec esq est etc ext feb fla fri ga
inc ind intl jan jr jul jun kan kans ky ltd mar md mich minn mo mon mont neb nev nov oct okla penn plc rd rt sep
sept seq sq sr tel tenn thu thurs tue tues univ va vt wed wis wisc wyo
"""
_CAPITALISED_ENDINGS = "Ark Del Ill La Mass Miss Ore Pa Tex Wash"
_BEFORE_NUMBERS = "no nos fig figs art ca op pp prop"
# After an initial, these begin a new sentence and not a surname.
_SENTENCE_STARTS = r"""
A About According Additionally After An As At But Earlier He Her Here However If In It Last Many More Mr\. Ms\. Now Once
One Other Our She Since So Some Such That The Their Then There These They This We What When While Yet You
"""
_FILES = """
jpg jpeg png gif bmp txt doc docx pdf ppt xml html htm php py c h cpp java class jar bat exe dll zip gz tar mp3 wav mov
pl sql ps cgi x
"""


def _any_of(words: str, *, capital: bool = False) -> str:
    """Return the alternatives of a regular expression: the words, or if asked in any case after their first letter."""
    return "|".join(f"{word[0]}(?i:{word[1:]})" if capital else word for word in words.split())


# Entities of markup are put into the text as private characters, one each, which no caption holds: the program
# reads `&apos;` as an apostrophe, but not everywhere; and all but the common ones it writes out again.
_QUOT_ENTITY, _AMP_ENTITY, _ACCENTS = "\ue000", "\ue001", "\ue010-\ue01e"
_NBSP_ENTITY = "\ue004"  # in no rule, as if the program did not know it: dropped, and no token goes on behind it
_DASH_ENTITIES = {"&md;": "\ue005", "&mdash;": "\ue006", "&ndash;": "\ue007"}  # likewise; an address keeps them
_PLAIN_QUOT_ENTITY = "\ue008"  # in lower case: a double quote, but in an address
_SIGN_ENTITIES = _QUOT_ENTITY + _PLAIN_QUOT_ENTITY + _AMP_ENTITY
_ENTITY_MARKS = f"\ue000-\ue008{_ACCENTS}"  # each is several characters of an address
_APOS_ENTITIES = "\ue002\ue003"  # the one in lower case, and in any other
_ACCENTED = {
    f"&{letter}{accent};": chr(0xE010 + 3 * row + column)
    for row, letter in enumerate("aeiou")
    for column, accent in enumerate(("acute", "grave", "uml"))
}
_WRITTEN_OUT = {
    **{_QUOT_ENTITY: "&quot;", _AMP_ENTITY: "&amp;", _NBSP_ENTITY: "&nbsp;"},
    **dict.fromkeys(_APOS_ENTITIES, "&apos;"),
    **{mark: entity for entity, mark in _DASH_ENTITIES.items()},
    _PLAIN_QUOT_ENTITY: "&quot;",
    **{mark: entity for entity, mark in _ACCENTED.items()},
}

_A = "A-Za-z"
_AD = "A-Za-z0-9"
_D = DIGITS + "\xad"  # a soft hyphen is inside words and numbers, and not written
_L = LETTERS
_LD = LETTERS + DIGITS
_LM = LETTERS + MARKS + _ACCENTS + "\xad"
_LMD = _LM + DIGITS
_QUOTES = "`\u2018\u2019\u201b\u201c\u201d\u2039\u203a\xab\xbb\x91-\x94"
_APOS = f"['\u2019\x92{_APOS_ENTITIES}]"
_APOS_OR_TICK = f"['\u2019\x92`\u2018\x91\u201b{_APOS_ENTITIES}]"

_WORD = rf"[{_LM}][{_LMD}]*(?:[.!?][{_LM}][{_LMD}]*)*"
_ELIDED = rf"(?:[dDoOlL]{_APOS_OR_TICK}(?=[{_LD}]{{2}}))?"
_JOINED = rf"{_ELIDED}[{_LD}]+(?:[-\u058a\u2010\u2011_]{_ELIDED}[{_LD}]+)*"
_NAMES = rf"[A-Z]+(?:[+&{_AMP_ENTITY}][A-Z]+)+"
_INITIALS = rf"[{_A}](?:\.[{_A}])+"
_NUMBER = rf"[{_D}]*(?:[.,:\u066b\u066c][{DIGITS}][{_D}]*)+|[{_D}]+"
_AUXILIARY = "(?:[sdmSDM]|[rR][eE]|[vV][eE]|[lL][lL])"
_SLASHED = rf"[{_AD}]+(?:-[{_A}]+){{0,2}}"
_TAG_NAME = r"[A-Za-z][A-Za-z0-9_:.-]*"
_ATTRIBUTE = r"[A-Za-z_:][A-Za-z0-9_:.-]*(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'))?"
_TAG = rf"(?:<[!?][A-Za-z-][^>]*>|</{_TAG_NAME}\s*>|<{_TAG_NAME}(?:\s+{_ATTRIBUTE})*\s*/?>)"
# The characters of an address and those at its end, as ranges: each ASCII character was tried in each place.
_ADDRESS = "!#-'*-;=?-z~\x80-\U0010ffff"
_ADDRESS_END = "#-'*+/-;=@-z~\x80-\U0010ffff"
# An entity ends in a semicolon, which no label holds: "&amp;www.a.com" is a sign and an address.
_HOST_LABEL = "a-z#%&*+~\x80-\udfff\ue009-\ue00f\ue01f-\U0010ffff"
_MAIL = r"!#-'*-,\-/-;=?-z~\x80-\x9f\xa1-\U0010ffff"
_HOST = rf"(?:(?i:www)(?:\.[-{_ADDRESS_END}]+)+\.[{_A}]{{2,4}}|(?:[{_HOST_LABEL}]+\.)+(?i:com|net|org|edu))"
_TWO_MORE = rf"(?:[^{_ACCENTS}][\s\S])?"  # not a letter that goes on with the word, and is several characters there
_DIGIT_GROUP = "[0-9]{2,4}[ \xa0-]"

# Group 1 is the token; a rule's match beyond it is looked at, counted, and left for the next token.
_RULES = (
    # Two words written as one come before words: among equally long matches the first rule wins.
    rf"((?i:can))(?i:not)(?![{_AD}])",
    rf"((?i:gon|wan))(?i:na)(?![{_AD}])",
    rf"((?i:got))(?i:ta)(?![{_AD}])",
    rf"((?i:gim|lem))(?i:me)(?![{_AD}])",
    rf"({_WORD})",
    rf"({_JOINED})",
    rf"({_SLASHED}(?:\\?/{_SLASHED}){{1,2}})",
    # Contractions. Before n't the word must not end in another n.
    rf"([{_A}]*[A-MO-Za-mo-z]|[{_A}][{_A}\xad]*\xad)[nN]{_APOS_OR_TICK}[tT]",
    rf"([nN]{_APOS_OR_TICK}[tT])(?![{_A}])",
    rf"({_WORD}|{_JOINED}){_APOS}{_AUXILIARY}",
    rf"('{_AUXILIARY})(?![{_A}])",
    rf"([\u2019\x92{_APOS_ENTITIES}]{_AUXILIARY})",
    "('[tT])(?i:is|was)",
    # Words with an inner or leading apostrophe.
    rf"([yY]{_APOS})[{_L}]",
    rf"([dDjJlL]{_APOS})",
    rf"({_APOS}[nN]{_APOS})",
    r"('[nN])(?=\s)",
    rf"([\u2019\x92{_APOS_ENTITIES}][nN])",
    rf"({_APOS}(?i:em|till?|cause))",
    rf"({_APOS}[2-9]0[sS])",
    rf"({_APOS}[0-9][0-9])(?=\s)",
    rf"([A-HJ-XZn]{_APOS_OR_TICK}[{_L}]{{2,}})",
    rf"([{_L}]+[aeiouyAEIOUY]{_APOS_OR_TICK}[aeiouA-Z][{_L}]*)",
    "((?i:c'mon|c'est|cap'n|e'er|s'mores|ev'ry|li'l|nat'l|nor'easter|o'o))",
    "((?i:ol|somethin|dunkin)['\u2019])",
    # E-mail comes before abbreviations, and these before hyphens.
    rf"((?:<|&(?i:lt);)?[{_AD}][.{_MAIL}]*@[{_MAIL}]+(?:\.[{_MAIL}]+)*(?:>|&(?i:gt);)?)",
    rf"([{_A}]\.)",
    rf"([{_A}])\.\s+(?:{_any_of(_SENTENCE_STARTS, capital=True)}|{_TAG})\s",
    rf"({_INITIALS}\.)",
    rf"((?:[pP][hH]|[eE][dD])\.[dD]\.){_TWO_MORE}",
    rf"((?:(?i:{_any_of(_TITLES)})|[Mm]f[Gg])\.)",
    rf"((?:(?i:{_any_of(_ENDINGS)})|[Pp][Tt][ey]|{_any_of(_CAPITALISED_ENDINGS, capital=True)})\.){_TWO_MORE}",
    rf"((?i:{_any_of(_BEFORE_NUMBERS)})\.)\s?[{DIGITS}]",
    rf"((?:{_WORD}|{_JOINED}|{_NAMES})\.)[,;:]",
    rf"([{_AD}][{_AD}\xad.,]*(?:-(?:{_INITIALS}\.|[{_AD}\xad]+))+)",
    "((?i:anti|pro)-)",
    # Numbers: plain, mixed fractions, dates, telephones, currencies, and the letters that go with signs.
    rf"([-+]?(?:{_NUMBER}))",
    rf"((?:[{DIGITS}]{{1,4}}[- \xa0])?[{DIGITS}]{{1,4}}(?:\\?/|\u2044)[{DIGITS}]{{1,4}})",
    rf"([{DIGITS}]{{1,2}}[-/][{DIGITS}]{{1,2}}[-/][{DIGITS}]{{2,4}})",
    rf"((?:\([0-9]{{2,3}}\)[ \xa0]?|\+{{0,2}}(?:{_DIGIT_GROUP}){{1,2}})[0-9]{{3,4}}[ \xa0-]?[0-9]{{3,5}})",
    r"([A-Z]+\$)",
    r"([cC]\+\+|[cCfF]#)",
    rf"({_NAMES})",
    # The web.
    rf"((?i:https?)://(?:[{_ADDRESS}]+[{_ADDRESS_END}]|[{_ENTITY_MARKS}]))",
    rf"({_HOST})",
    rf"({_HOST}/(?:[{{}}{_ADDRESS}]+[{_ADDRESS_END}]|[{_ENTITY_MARKS}]))",
    rf"([{_LD}]+(?:\.[{_LD}]+)*\.(?i:{_any_of(_FILES)}))(?=[\s.,!?])",
    rf"(@[{_A}_][{_AD}_]*)",
    rf"(#[{_LM}]+)",
    rf"({_TAG})",
    # Faces.
    rf"([<>]?[:;=][-o*']?[()DPdpO\\@|\[\]{{])(?![{_AD}])",
    r"([-^x=~<>']_[-^x=~<>'])",
    r"(\([-^x=~<>'][_.]?[-^x=~<>']\))",
    # Entities of markup.
    r"(&(?:(?i:lt|gt)|#[0-9]+);)",
    r"(-(?i:[lr][rsc]b)-)",
    # Runs of signs, then single signs.
    r"([!?]+)",
    r"(#+)",
    r"(@+)",
    r"((?:\\\*)+|\*+)",
    r"(_+)",
    r"(-+)",
    r"(<<|>>)",
    r"(\.{3,5})",
    rf"([{_QUOTES}]{{1,2}}|''|'|[{_APOS_ENTITIES}])",
    rf"([{SYMBOLS}{_SIGN_ENTITIES}\u2026\xa2\xa3\xa4\u20a0\u20ac\xbc\xbd\xbe\u2153\u2154\x80!-/:-@\[-`{{-~])",
)

_SPELLING = {
    **{"&lt;": "<", "&gt;": ">"},
    **{"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-"},
    **dict.fromkeys(('"', _PLAIN_QUOT_ENTITY), "''"),
    **{"\xa2": "cents", "\xa3": "#", **dict.fromkeys("\xa4\u20a0\u20ac\x80", "$")},
    **{"\xbc": "1/4", "\xbd": "1/2", "\xbe": "3/4", "\u2153": "1/3", "\u2154": "2/3", "\u2026": "..."},
    **{"--": "--", "---": "--", "----": "--", "...": "...", "....": "...", ".....": "..."},
}
_PLAIN_QUOTES = str.maketrans(
    {
        **dict.fromkeys("\u2018\u201b\u2039\x91", "`"),
        **dict.fromkeys("\u2019\u203a\x92", "'"),
        **dict.fromkeys("\u201c\xab\x93", "``"),
        **dict.fromkeys("\u201d\xbb\x94", "''"),
        **_WRITTEN_OUT,
        "\ue002": "'",
    }
)
_WRITTEN = str.maketrans({**_WRITTEN_OUT, "\xad": "", "(": "-lrb-", ")": "-rrb-"})
_NAME = re.compile(rf"[A-Z+&{_AMP_ENTITY}]+\.?")
_MADE_OF_QUOTES = re.compile(rf"[{_QUOTES}{_APOS_ENTITIES}]+|{_APOS}{_AUXILIARY}|[nN]{_APOS_OR_TICK}[tT]")
_BLANK = re.compile(r"\s")
_ASCII_BLANKS = re.compile(r"[ \t]+")
# Tokens that may reach over a blank: markup, an initial before a sentence, fractions and telephones, `no. 5`.
_SPANNING = re.compile(
    rf"<[^>]*\s[^>]*>|[{_A}]\.\s+[A-Z<]|[0-9]\s[0-9]|\)\s[0-9]|(?i:(?:{_any_of(_BEFORE_NUMBERS)}))\.\s[{DIGITS}]"
)
_ENTITIES = {
    **{"&nbsp;": _NBSP_ENTITY, "&amp;": _AMP_ENTITY, **_DASH_ENTITIES},
    **{"&apos;": "\ue003", "&quot;": _QUOT_ENTITY, **_ACCENTED},
}
_ENTITY = re.compile("|".join(_ENTITIES), re.IGNORECASE | re.ASCII)
_NAME_WITH_AND = re.compile(rf"(?<![{_LMD}#@])[A-Z]+(?:[+&][A-Z]+)*\Z")
# Line breaks are blanks; and a character that stands for an entity here is one that the program does not know.
_CLEANED = str.maketrans({**dict.fromkeys("\n\r\v\f\x85\u2028\u2029", " "), **dict.fromkeys(_WRITTEN_OUT, "\uf8ff")})


def _mark_entity(match: re.Match[str]) -> str:
    """Return the character that an entity is read as; in `R&Amp;` there is none, for `R&A` is a name."""
    entity, name = match[0], match[0].lower()
    follows = match.string[match.end() : match.end() + 1]
    joins = name in _ACCENTED or (follows.isupper() if name == "&amp;" else name == "&apos;" and follows.isalpha())
    if entity[1].isupper() and not joins and _NAME_WITH_AND.search(match.string, 0, match.start()):
        return entity
    return {"&apos;": "\ue002", "&quot;": _PLAIN_QUOT_ENTITY}.get(entity) or _ENTITIES[name]


@cache
def _compile_patterns() -> tuple[re.Pattern[str], ...]:
    """Compile the rules for the first caption: at import they would take longer than all else that a run imports."""
    return tuple(re.compile(rule, re.ASCII) for rule in _RULES)


def _spell_token(token: str) -> str:
    """Write a token as the program does: brackets and money by name, plain quotes, lower case."""
    if (spelling := _SPELLING.get(token.lower())) is not None:
        return spelling
    if _MADE_OF_QUOTES.fullmatch(token):
        return token.translate(_PLAIN_QUOTES).lower()
    if _NAME.fullmatch(token):
        token = token.replace(_AMP_ENTITY, "&")
    return _BLANK.sub("\xa0", token.lower().translate(_WRITTEN))


def _cut_text(text: str) -> str:
    """Return the tokens of a text, joined by blanks, without the dropped punctuation."""
    text += "\n"  # a caption is a line: some rules want to see a blank after their token
    tokens = []
    at = 0
    while at < len(text):
        longest, end = None, at
        for rule in _compile_patterns():
            match = rule.match(text, at)
            if match and match.end() > end:
                longest, end = match, match.end()
        if longest is None:  # a blank, or a character that the program does not know and drops
            at += 1
            continue
        tokens.append(_spell_token(longest[1]))
        at = longest.end(1)
    return " ".join(token for token in tokens if token and token not in _DROPPED)


_cut_piece = lru_cache(maxsize=1 << 16)(_cut_text)


def tokenize(caption: str) -> str:
    """Return a caption's tokens, lower-cased and joined by single blanks, as pycocoevalcap's tokeniser gives them.

    The empty string if nothing but punctuation is left.

    Source: `PTBTokenizer` of Stanford CoreNLP 3.4.1 and `pycocoevalcap/tokenizer/ptbtokenizer.py`; see above for what
    is covered.

    >>> tokenize("A man (w/ hat) isn't eating 3 apples.")
    "a man -lrb- w / hat -rrb- is n't eating 3 apples"
    >>> tokenize("The dogs' T-shirts cost $5.00 & more...")
    'the dogs t-shirts cost $ 5.00 & more'
    """
    caption = caption.translate(_CLEANED)
    if "&" in caption:
        caption = _ENTITY.sub(_mark_entity, caption)
    if _SPANNING.search(caption):
        return _cut_text(caption)
    return " ".join(filter(None, map(_cut_piece, _ASCII_BLANKS.split(caption))))
