"""Makes `sample.json`, the catalogue that ships with the package: 280 invented products in WebShop's file format.

    python -c "from tests.tools.webshop_sample import write_sample; write_sample()"

Titles, option lists and instructions are short, so that a page fits into the context of a very small model.
"""

from __future__ import annotations

import json
import random
from importlib.resources import files
from pathlib import Path
from typing import Any

_SEED = 20
_PER_KIND = 7
_EVERY_PLAIN = 40
_EVERY_HUMAN = 8
_BRANDS = "Alto Brio Cove Dune Elmo Fenn Gala Haro Isla Jora Kite Lume Mira Nord Opal Pino Quil Roan Sola Tavo"
_COLOURS = [
    "black",
    "white",
    "red",
    "blue",
    "green",
    "yellow",
    "purple",
    "pink",
    "brown",
    "navy",
    "teal",
    "beige",
]
_CLOTHES = ["x-small", "small", "medium", "large", "x-large"]

_KINDS = """
shirt|shirts|Clothing > Tops|cotton linen denim|long sleeve,button down,slim fit|color size
scarf|scarves|Clothing > Accessories|wool silk cotton|winter warm,fringe ends,airy knit|color length
jacket|jackets|Clothing > Outerwear|denim fleece leather|storm hood,ribbed cuffs,side pockets|color size
dress|dresses|Clothing > Women|linen satin cotton|knee height,pleated skirt,belted waist|color size
socks|socks|Clothing > Basics|wool cotton bamboo|arch support,moisture wicking,cushioned heel|color pairs
hat|hats|Clothing > Accessories|straw felt wool|wide brim,sun shade,chin strap|color size
belt|belts|Clothing > Accessories|leather canvas|metal buckle,genuine hide,two sided|color length
gloves|gloves|Clothing > Accessories|leather fleece|touch screen,cozy lining,suede palm|color size
sneakers|sneakers|Shoes > Sport|mesh canvas|rubber sole,lace up,shock absorbing|color shoe
sandals|sandals|Shoes > Summer|cork leather|open toe,quick drying,molded footbed|color shoe
boots|boots|Shoes > Winter|leather suede|steel cap,ice grip,ankle high|color shoe
slippers|slippers|Shoes > Home|felt plush|memory foam,house wear,soft bottom|color shoe
backpack|backpacks|Bags > Travel|canvas nylon|laptop friendly,padded back,rain shell|color volume
wallet|wallets|Bags > Small|leather canvas|card slots,coin pouch,rfid blocking|color fold
suitcase|suitcases|Bags > Travel|nylon steel|spinner wheels,combination lock,expandable body|color volume
mug|mugs|Kitchen > Cups|steel glass clay|dishwasher safe,vacuum layer,leak tight|color volume
pan|pans|Kitchen > Cookware|steel copper iron|nonstick surface,induction ready,campfire use|coating diameter
knife|knives|Kitchen > Tools|steel ceramic|razor sharp,full tang,balanced weight|handle length
kettle|kettles|Kitchen > Tea|steel glass|auto shutoff,cordless base,rapid boil|color volume
apron|aprons|Kitchen > Textiles|cotton linen|adjustable neck,oil repellent,towel loop|color size
lamp|lamps|Home > Lighting|brass glass|dimmable beam,energy saving,swing arm|finish bulb
rug|rugs|Home > Floor|wool jute|stain guard,hand woven,dense pile|color area
pillow|pillows|Home > Bedding|down foam|cooling cover,cervical shape,washable case|feel area
blanket|blankets|Home > Bedding|fleece wool|lint less,ultra fluffy,weighted edges|color area
curtain|curtains|Home > Windows|linen velvet|blackout fabric,grommet top,noise reducing|color length
candle|candles|Home > Decor|soy wax|slow burning,paper wick,jar included|scent burn
clock|clocks|Home > Decor|oak steel|silent movement,battery powered,large digits|finish diameter
chair|chairs|Furniture > Seats|oak steel|easy assembly,lumbar curve,reclining frame|color seat
desk|desks|Furniture > Tables|oak pine|cable tray,sturdy legs,drawer unit|finish width
shelf|shelves|Furniture > Storage|pine steel|wall mounted,heavy duty,floating style|finish width
shampoo|shampoos|Beauty > Hair|mint argan|sulfate free,dandruff control,curl defining|scent bottle
lotion|lotions|Beauty > Skin|aloe shea|dry skin,daily moisture,vitamin rich|scent bottle
soap|soaps|Beauty > Bath|olive goat|oat exfoliating,sensitive care,rich lather|scent pieces
brush|brushes|Beauty > Tools|bamboo boar|natural bristles,ergonomic hold,detangling|handle width
coffee|coffees|Grocery > Drinks|arabica robusta|fair trade,low acid,whole bean|roast bag
tea|teas|Grocery > Drinks|jasmine mate|loose leaf,herbal mix,calming taste|flavor bag
granola|granolas|Grocery > Breakfast|oat nut|crunchy clusters,plant protein,sugar reduced|flavor bag
charger|chargers|Electronics > Power|usb solar|fast charging,surge protection,led indicator|color cable
speaker|speakers|Electronics > Audio|mini party|deep bass,voice assistant,stereo pairing|color plug
tripod|tripods|Electronics > Photo|steel carbon|bubble level,quick release,phone clamp|color height
"""
_OPTIONS: dict[str, list[str]] = {
    "color": _COLOURS,
    "size": _CLOTHES,
    "length": ["60 cm", "90 cm", "120 cm", "150 cm", "180 cm"],
    "pairs": ["1", "3", "6", "12"],
    "pieces": ["1", "2", "4", "8"],
    "shoe": ["6", "7", "8", "9", "10", "11", "7 wide", "9 wide"],
    "volume": ["0.3 l", "0.5 l", "1 l", "2 l", "20 l", "35 l"],
    "fold": ["bifold", "trifold", "long", "zip around"],
    "coating": ["ceramic", "granite", "plain", "titanium"],
    "diameter": ["20 cm", "24 cm", "28 cm", "32 cm", "36 cm"],
    "handle": ["olive wood", "walnut", "black", "steel", "beech"],
    "finish": ["matte black", "natural", "white", "walnut", "gold"],
    "bulb": ["e14", "e27", "gu10", "led"],
    "area": ["50 x 80", "80 x 150", "120 x 170", "160 x 230", "king/queen"],
    "feel": ["soft", "medium", "firm", "extra firm"],
    "scent": ["lavender", "vanilla", "cedar", "citrus", "unscented", "rose"],
    "burn": ["20 h", "40 h", "60 h", "80 h"],
    "seat": ["mesh", "leather", "fabric", "wood"],
    "width": ["60 cm", "80 cm", "100 cm", "120 cm", "140 cm"],
    "bottle": ["100 ml", "250 ml", "500 ml", "1 l"],
    "roast": ["light", "medium", "dark", "espresso"],
    "bag": ["100 g", "250 g", "500 g", "1 kg"],
    "flavor": ["honey", "berry", "mint", "lemon", "original", "cocoa"],
    "cable": ["usb-c", "lightning", "micro usb", "none"],
    "plug": ["eu", "uk", "us", "au"],
    "height": ["50 cm", "100 cm", "150 cm", "180 cm"],
}
_VALUES_PER_GROUP = 4


def make_sample() -> dict[str, Any]:
    """The three files of a catalogue in one object: items, annotations and what people ask for."""
    rng = random.Random(_SEED)
    items: list[dict[str, Any]] = []
    annotations: dict[str, Any] = {}
    human: dict[str, Any] = {}
    for line in _KINDS.strip().splitlines():
        for _ in range(_PER_KIND):
            item, annotation = _product(rng, len(items), line.split("|"))
            if len(items) % _EVERY_HUMAN == 0:
                human[item["asin"]] = [_wish(rng, item, annotation)]
            items.append(item)
            annotations[item["asin"]] = annotation
    return {"items": items, "annotations": annotations, "human": human}


def write_sample(path: Path | None = None) -> None:
    """Writes the catalogue to the package, or to a path."""
    target = path or Path(str(files("actfirst.environments.webshop") / "sample.json"))
    target.write_text(json.dumps(make_sample(), separators=(",", ":")) + "\n", encoding="utf-8")


def _product(rng: random.Random, number: int, kind: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    noun, query, path, materials, features, groups = kind
    brand, material = rng.choice(_BRANDS.split()), rng.choice(materials.split())
    attributes = rng.sample(features.split(","), rng.randint(2, len(features.split(","))))
    asin = f"B{100 + number}"
    dollars = rng.randint(6, 140)
    options = {group: [{"value": value} for value in _values(rng, group)] for group in groups.split()}
    if number % _EVERY_PLAIN == 0:
        options = {}  # some products come in one form only
    item = {
        "asin": asin,
        "name": f"{brand} {material} {noun}",
        "full_description": f"A {material} {noun} by {brand}: {', '.join(attributes)}.",
        "small_description": [f"{attribute.capitalize()} " for attribute in attributes]
        + [f"Made of {material}"],
        "product_category": " \u203a ".join([*path.split(" > "), query.capitalize()]),
        "category": path.split(" > ")[0].lower(),
        "query": query,
        "pricing": f"${dollars}.99"
        if rng.random() < 0.7
        else f"${dollars}.99 - ${dollars + rng.randint(2, 30)}.99",
        "customization_options": options or "",
    }
    wanted = rng.sample(attributes, rng.randint(1, 2))
    annotation = {
        "attributes": attributes,
        "instruction": f"Find me {', '.join(wanted)} {query}",
        "instruction_attributes": wanted,
    }
    return item, annotation


def _values(rng: random.Random, group: str) -> list[str]:
    known = _OPTIONS[group]
    chosen = sorted(rng.sample(range(len(known)), _VALUES_PER_GROUP))
    return [known[place].title() for place in chosen]


def _wish(rng: random.Random, item: dict[str, Any], annotation: dict[str, Any]) -> dict[str, Any]:
    """What a person might write for a product: the values of some options, in passing."""
    groups = item["customization_options"] or {}
    chosen = [rng.choice(contents)["value"].lower() for contents in groups.values()][: rng.randint(1, 2)]
    options = [value.replace("/", " | ") for value in chosen]
    wanted = annotation["instruction_attributes"]
    said = f"i need {item['query']} with {' and '.join(wanted)}"
    return {
        "asin": item["asin"],
        "instruction": f"{said}, {' '.join(chosen)}." if chosen else f"{said}.",
        "instruction_attributes": wanted,
        "instruction_options": options,
    }
